import type { AcceptOutcome } from "../../contract/intake.ts";
import type { NewCall } from "../../new-call.ts";
import { type KnownDelivery, repeatOf } from "../../rules/repeated-deliveries.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { JobCalls } from "./job-calls.ts";

/** Expired delivery keys that are deleted with each delivery: more than it adds, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 10;

export function intakeOperations(
  database: Database,
  jobCalls: JobCalls,
): OperationTable<"accept" | "acceptOnce"> {
  const select = database.prepare<KnownDelivery>(
    "SELECT body_hash, call_id FROM deliveries WHERE key = ? AND expires_at > ?",
  );
  const upsert = database.prepare("INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?)");
  const forgetExpired = database.prepare(
    `DELETE FROM deliveries WHERE key IN
       (SELECT key FROM deliveries WHERE expires_at <= ? LIMIT ${FORGOTTEN_AT_ONCE})`,
  );

  function accept(now: number, call: NewCall): AcceptOutcome {
    if (!jobCalls.hasRoom()) return { kind: "queue_full" };
    return { kind: "accepted", callId: jobCalls.insert(call, "ready", now) };
  }

  return {
    accept,
    acceptOnce(now, call, delivery) {
      const repeat = repeatOf(delivery, (key) => select.get([key, now]));
      if (repeat !== undefined) return repeat;
      const outcome = accept(now, call);
      if (outcome.kind !== "accepted") return outcome;
      forgetExpired.run([now]);
      for (const { key } of delivery.keys) {
        upsert.run([key, delivery.bodyHash, outcome.callId, now + delivery.windowMs]);
      }
      return outcome;
    },
  };
}
