import type { Telemetry } from "./core/telemetry.ts";

/** Returns a listener that records the size and the duration of each batch that the store commits. */
export function measureBatches(telemetry: Telemetry) {
  const durationOf = (outcome: string) =>
    telemetry.histogram("jobgate_store_commit_duration_seconds", { outcome });
  const [committedIn, failedIn] = [durationOf("committed"), durationOf("failed")];
  const sizes = telemetry.histogram("jobgate_store_commit_operations", {});
  return (batch: {
    readonly operations: number;
    readonly durationMs: number;
    readonly committed: boolean;
  }): void => {
    const { operations, durationMs, committed } = batch;
    (committed ? committedIn : failedIn).observe(durationMs / 1000);
    sizes.observe(operations);
  };
}
