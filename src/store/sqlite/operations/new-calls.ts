import type { Capacity } from "../../capacity.ts";
import type { AcceptOnceOutcome, Delivery } from "../../contract/intake.ts";
import type { NewCall } from "../../new-call.ts";
import type { Database } from "../driver.ts";
import { prepareDeliveries } from "./deliveries.ts";

/** Writes a JobCall and gives its new call id. */
export type InsertCall = (call: NewCall, state: "held" | "ready", now: number) => number;

export function prepareInsertCall(database: Database, capacity: Capacity): InsertCall {
  const insertCall = database.prepare(
    "INSERT INTO job_calls (origin, job_id, service_id, state, enqueued_at) VALUES (?, ?, ?, ?, ?)",
  );
  const insertBody = database.prepare("INSERT INTO job_bodies (call_id, encoded) VALUES (?, ?)");
  return (call, state, now) => {
    const row = insertCall.run([call.origin, call.jobId, call.serviceId, state, now]);
    const callId = Number(row.lastInsertRowid);
    insertBody.run([callId, call.encoded]);
    capacity.adjust(1);
    return callId;
  };
}

type AcceptOutcome = { kind: "accepted"; callId: number } | { kind: "queue_full" };

/** The {@link Intake} operations. */
export function intakeOperations(database: Database, capacity: Capacity, insertCall: InsertCall) {
  const deliveries = prepareDeliveries(database);

  function accept({ call }: { call: NewCall }, now: number): AcceptOutcome {
    if (!capacity.hasRoom()) return { kind: "queue_full" };
    return { kind: "accepted", callId: insertCall(call, "ready", now) };
  }

  return {
    accept,
    acceptOnce({ call, delivery }: { call: NewCall; delivery: Delivery }, now: number): AcceptOnceOutcome {
      const repeated = deliveries.find(delivery, now);
      if (repeated !== undefined) return repeated;
      const outcome = accept({ call }, now);
      if (outcome.kind === "accepted") deliveries.remember(delivery, outcome.callId, now);
      return outcome;
    },
  };
}
