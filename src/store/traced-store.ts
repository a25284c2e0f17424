import type { JobCall } from "../core/job-call.ts";
import type { SpanAttributes, Tracing } from "../telemetry/tracing.ts";
import type { Store } from "./store.ts";

/** Name of the metadata by which a runner, and a later delivery, go on with the trace. */
const TRACEPARENT = "traceparent";

/** The same store; what makes a JobCall durable is a span, and the JobCall takes its trace along. */
export function traceStore(store: Store, tracing: Tracing): Store {
  function committed<T extends { readonly kind: string }>(operation: string, write: () => Promise<T>) {
    const attributes: SpanAttributes = { "jobgate.operation": operation };
    return tracing.runChild({ name: "store.commit", kind: "internal", attributes }, async (span) => {
      const outcome = await write();
      const callId = "callId" in outcome ? { "jobgate.call_id": Number(outcome.callId) } : {};
      span?.set({ "jobgate.outcome": outcome.kind, ...callId });
      return outcome;
    });
  }

  function withTrace(call: JobCall): JobCall {
    const traceparent = tracing.traceparent();
    if (traceparent === undefined) return call;
    return { ...call, metadata: { ...call.metadata, [TRACEPARENT]: traceparent } };
  }

  return {
    ...store,
    accept(call) {
      const traced = withTrace(call);
      return committed("accept", () => store.accept(traced));
    },
    acceptOnce(call, delivery) {
      const traced = withTrace(call);
      return committed("accept", () => store.acceptOnce(traced, delivery));
    },
    beginPayment(intent, call) {
      const traced = withTrace(call);
      return committed("begin", () => store.beginPayment(intent, traced));
    },
    settlePayment: (key, settlement) => committed("settle", () => store.settlePayment(key, settlement)),
    failPayment: (key, settlement, reason) =>
      committed("fail", () => store.failPayment(key, settlement, reason)),
  };
}
