import type { BatchListener } from "../store/store.ts";
import type { Telemetry } from "./telemetry.ts";

/** Measures what the store makes durable, and how long it takes. */
export function measureBatches(telemetry: Telemetry): BatchListener {
  return ({ operations, durationMs, committed }) => {
    const outcome = committed ? "committed" : "failed";
    telemetry.observe("jobgate_store_commit_duration_seconds", { outcome }, durationMs / 1000);
    telemetry.observe("jobgate_store_commit_operations", {}, operations);
  };
}
