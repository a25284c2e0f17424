import { measure, type Telemetry } from "../../telemetry/telemetry.ts";
import type { Facilitator } from "./facilitator.ts";

/** The same facilitator; how long it takes, and what it says, is told. */
export function measureFacilitator(facilitator: Facilitator, telemetry: Telemetry): Facilitator {
  function measured<T extends { readonly kind: string }>(
    operation: "verify" | "settle",
    ask: () => Promise<T>,
  ): Promise<T> {
    return measure(
      telemetry,
      {
        histogram: "jobgate_facilitator_request_duration_seconds",
        labels: (result) => ({ operation, outcome: "value" in result ? result.value.kind : "no_answer" }),
        span: `facilitator.${operation}`,
      },
      ask,
    );
  }
  return {
    verify: (request) => measured("verify", () => facilitator.verify(request)),
    settle: (request) => measured("settle", () => facilitator.settle(request)),
  };
}
