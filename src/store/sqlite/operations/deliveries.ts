import type { Delivery } from "../../contract/intake.ts";
import type { Database } from "../driver.ts";

/** Ended entries that are forgotten with each delivery: more than it brings, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 10;

interface DeliveryRow {
  body_hash: string;
  call_id: number;
}

/** Webhook deliveries that were accepted, for as long as repeats of them are recognised. */
export interface Deliveries {
  /** What became of the same delivery before. */
  find(
    delivery: Delivery,
    now: number,
  ): { kind: "duplicate"; callId: number } | { kind: "conflict" } | undefined;
  remember(delivery: Delivery, callId: number, now: number): void;
}

export function prepareDeliveries(database: Database): Deliveries {
  const select = database.prepare<DeliveryRow>(
    "SELECT body_hash, call_id FROM deliveries WHERE key = ? AND expires_at > ?",
  );
  const upsert = database.prepare("INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?)");
  const forgetEnded = database.prepare(
    `DELETE FROM deliveries WHERE key IN
       (SELECT key FROM deliveries WHERE expires_at <= ? LIMIT ${FORGOTTEN_AT_ONCE})`,
  );
  return {
    find({ keys, bodyHash }, now) {
      const found = keys.flatMap(({ key, identifies }) => (identifies ? (select.get([key, now]) ?? []) : []));
      const [first] = found;
      if (first === undefined) return undefined;
      return found.every(({ body_hash }) => body_hash === bodyHash)
        ? { kind: "duplicate", callId: first.call_id }
        : { kind: "conflict" };
    },
    remember({ keys, bodyHash, windowMs }, callId, now) {
      forgetEnded.run([now]);
      for (const { key } of keys) upsert.run([key, bodyHash, callId, now + windowMs]);
    },
  };
}
