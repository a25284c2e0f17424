import { status } from "@grpc/grpc-js";
import { measure, type Telemetry } from "../telemetry/telemetry.ts";
import type { EngineClient } from "./engine-client.ts";

/** The same client; how long the engine takes, and with which status it answers, is told. */
export function measureEngineClient(client: EngineClient, telemetry: Telemetry): EngineClient {
  return {
    ...client,
    call: (method, request, options) =>
      measure(
        telemetry,
        {
          histogram: "jobgate_pricing_engine_call_duration_seconds",
          labels: (result) => ({
            method,
            code: status["value" in result ? result.value.status.code : status.UNKNOWN] ?? "UNKNOWN",
          }),
          span: "pricing_engine.call",
          attributes: { "rpc.method": method },
        },
        () => client.call(method, request, options),
      ),
  };
}
