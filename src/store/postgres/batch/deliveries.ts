import type { Delivery } from "../../contract/intake.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";

/** Ended entries that are forgotten with each delivery: more than it brings, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 10;

interface DeliveryRow {
  key: string;
  body_hash: string;
  call_id: number;
  expires_at: number;
}

const SELECT = statement<DeliveryRow>(
  "select_deliveries",
  "SELECT key, body_hash, call_id, expires_at FROM jobgate.deliveries WHERE key = ANY ($1::text[])",
);
const FORGET_ENDED = statement(
  "forget_deliveries",
  `DELETE FROM jobgate.deliveries WHERE key = ANY (ARRAY (
     SELECT key FROM jobgate.deliveries WHERE expires_at <= $1
      LIMIT $2 * ${FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);
const REMEMBER = `
  INSERT INTO jobgate.deliveries AS known
  SELECT * FROM json_populate_recordset(NULL::jobgate.deliveries, $1::json) ORDER BY key
  ON CONFLICT (key) DO UPDATE
     SET body_hash = excluded.body_hash, call_id = excluded.call_id, expires_at = excluded.expires_at`;
const REMEMBER_NEW = statement<{ key: string }>(
  "remember_new_deliveries",
  `${REMEMBER} WHERE known.expires_at <= $2 RETURNING key`,
);
const REMEMBER_LATEST = statement("remember_latest_deliveries", REMEMBER);

/** Webhook deliveries that matter to one batch, for as long as repeats of them are recognised. */
export interface Deliveries {
  load(sql: Sql): Promise<void>;
  /** What became of the same delivery before. */
  find(
    delivery: Delivery,
    now: number,
  ): { kind: "duplicate"; callId: number } | { kind: "conflict" } | undefined;
  remember(delivery: Delivery, callId: number, now: number): void;
  /** @throws LostRace when another batch has accepted a repeat meanwhile */
  write(sql: Sql, now: number): Promise<void>;
}

/** @param asked those that the batch may accept */
export function createDeliveries(asked: readonly Delivery[]): Deliveries {
  const known = new Map<string, DeliveryRow>();
  /** Each new to this batch: nobody else may have written it meanwhile. */
  const fresh = new Map<string, DeliveryRow>();
  const latest = new Map<string, DeliveryRow>();
  return {
    async load(sql) {
      if (asked.length === 0) return;
      const keys = asked.flatMap((delivery) => delivery.keys.map(({ key }) => key));
      for (const row of await sql.run(SELECT, [keys])) known.set(row.key, row);
    },
    find({ keys, bodyHash }, now) {
      const found = keys
        .flatMap(({ key, identifies }) => (identifies ? (known.get(key) ?? []) : []))
        .filter(({ expires_at }) => expires_at > now);
      const [first] = found;
      if (first === undefined) return undefined;
      return found.every(({ body_hash }) => body_hash === bodyHash)
        ? { kind: "duplicate", callId: first.call_id }
        : { kind: "conflict" };
    },
    remember({ keys, bodyHash, windowMs }, callId, now) {
      for (const { key, identifies } of keys) {
        const row = { key, body_hash: bodyHash, call_id: callId, expires_at: now + windowMs };
        known.set(key, row);
        if (identifies || fresh.has(key)) fresh.set(key, row);
        else latest.set(key, row);
      }
      for (const key of fresh.keys()) latest.delete(key);
    },
    async write(sql, now) {
      const [, written] = await Promise.all([
        fresh.size + latest.size === 0 ? [] : sql.run(FORGET_ENDED, [now, fresh.size + latest.size]),
        fresh.size === 0 ? [] : sql.run(REMEMBER_NEW, [JSON.stringify([...fresh.values()]), now]),
        latest.size === 0 ? [] : sql.run(REMEMBER_LATEST, [JSON.stringify([...latest.values()])]),
      ]);
      if (written.length !== fresh.size) throw new LostRace("a repeat of a delivery was accepted meanwhile");
    },
  };
}
