import type { NewCall } from "../../new-call.ts";
import type { BatchContext, BatchPart } from "./batch-context.ts";
import { createDeliveries } from "./deliveries.ts";
import { insertCalls } from "./new-rows.ts";
import { type Entry, entriesOf, type Operations } from "./operations.ts";

/** The {@link Intake} operations. */
export function acceptsPart(entries: readonly Entry<"accept" | "acceptOnce">[]): BatchPart {
  const accepted: { callId: number; call: NewCall }[] = [];
  const deliveries = createDeliveries(entriesOf(entries, "acceptOnce").map(({ input }) => input.delivery));

  function accept(
    call: NewCall,
    { capacity, takeCallId, madeReady }: BatchContext,
  ): Operations["accept"]["outcome"] {
    if (!capacity.hasRoom()) return { kind: "queue_full" };
    const callId = takeCallId();
    capacity.adjust(1);
    madeReady.add(callId);
    accepted.push({ callId, call });
    return { kind: "accepted", callId };
  }

  function acceptOnce(
    { call, delivery }: Operations["acceptOnce"]["input"],
    context: BatchContext,
  ): Operations["acceptOnce"]["outcome"] {
    const repeated = deliveries.find(delivery, context.now);
    if (repeated !== undefined) return repeated;
    const outcome = accept(call, context);
    if (outcome.kind === "accepted") deliveries.remember(delivery, outcome.callId, context.now);
    return outcome;
  }

  return {
    callIds: entries.length,
    load: (sql) => deliveries.load(sql),
    async write(context) {
      for (const entry of entries) {
        if (entry.name === "accept") entry.decide(accept(entry.input.call, context));
        else entry.decide(acceptOnce(entry.input, context));
      }
      const { sql, now } = context;
      await Promise.all([insertCalls(sql, accepted, "ready", now), deliveries.write(sql, now)]);
    },
  };
}
