import type { AcceptOnceOutcome, AcceptOutcome, Delivery } from "../../../store/contract/intake.ts";
import type { NewCall } from "../../../store/new-call.ts";
import { repeatOf } from "../../../store/rules/repeated-deliveries.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import { insertCalls } from "./new-rows.ts";

/** The Intake's operations. */
export class AcceptsPart implements BatchPart {
  readonly callIds: number;
  readonly #entries: readonly Entry<"accept" | "acceptOnce">[];
  readonly #deliveries: Deliveries;
  readonly #accepted: { callId: number; call: NewCall }[] = [];

  constructor(entries: readonly Entry<"accept" | "acceptOnce">[]) {
    this.callIds = entries.length;
    this.#entries = entries;
    this.#deliveries = new Deliveries(entriesOf(entries, "acceptOnce").map(({ input }) => input[1]));
  }

  load(sql: Sql): Promise<void> {
    return this.#deliveries.load(sql);
  }

  async write(context: BatchContext): Promise<void> {
    for (const entry of this.#entries) {
      if (entry.name === "accept") entry.decide(this.#accept(...entry.input, context));
      else entry.decide(this.#acceptOnce(...entry.input, context));
    }
    const { sql, now } = context;
    await Promise.all([insertCalls(sql, this.#accepted, "ready", now), this.#deliveries.write(sql, now)]);
  }

  #accept(call: NewCall, { capacity, takeCallId, madeReady }: BatchContext): AcceptOutcome {
    if (!capacity.hasRoom()) return { kind: "queue_full" };
    const callId = takeCallId();
    capacity.adjust(1);
    madeReady.add(callId);
    this.#accepted.push({ callId, call });
    return { kind: "accepted", callId };
  }

  #acceptOnce(call: NewCall, delivery: Delivery, context: BatchContext): AcceptOnceOutcome {
    const repeat = this.#deliveries.findRepeat(delivery, context.now);
    if (repeat !== undefined) return repeat;
    const outcome = this.#accept(call, context);
    if (outcome.kind === "accepted") this.#deliveries.remember(delivery, outcome.callId, context.now);
    return outcome;
  }
}

/** Expired delivery keys that are deleted with each delivery: more than it adds, so that they never pile up. */
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
const FORGET_EXPIRED = statement(
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

/** Known webhook deliveries with a key that the batch may accept. */
class Deliveries {
  readonly #asked: readonly Delivery[];
  readonly #known = new Map<string, DeliveryRow>();
  /** Keys that are new to this batch: no other batch may have written them meanwhile. */
  readonly #fresh = new Map<string, DeliveryRow>();
  readonly #latest = new Map<string, DeliveryRow>();

  constructor(asked: readonly Delivery[]) {
    this.#asked = asked;
  }

  async load(sql: Sql): Promise<void> {
    if (this.#asked.length === 0) return;
    const keys = this.#asked.flatMap((delivery) => delivery.keys.map(({ key }) => key));
    for (const row of await sql.run(SELECT, [keys])) this.#known.set(row.key, row);
  }

  findRepeat(delivery: Delivery, now: number): ReturnType<typeof repeatOf> {
    return repeatOf(delivery, (key) => {
      const row = this.#known.get(key);
      return row !== undefined && row.expires_at > now ? row : undefined;
    });
  }

  remember({ keys, bodyHash, windowMs }: Delivery, callId: number, now: number): void {
    for (const { key, identifies } of keys) {
      const row = { key, body_hash: bodyHash, call_id: callId, expires_at: now + windowMs };
      this.#known.set(key, row);
      if (identifies || this.#fresh.has(key)) this.#fresh.set(key, row);
      else this.#latest.set(key, row);
    }
    for (const key of this.#fresh.keys()) this.#latest.delete(key);
  }

  /** @throws LostRace when another batch has accepted a repeat meanwhile */
  async write(sql: Sql, now: number): Promise<void> {
    const fresh = [...this.#fresh.values()];
    const latest = [...this.#latest.values()];
    const count = fresh.length + latest.length;
    const [, written] = await Promise.all([
      count === 0 ? [] : sql.run(FORGET_EXPIRED, [now, count]),
      fresh.length === 0 ? [] : sql.run(REMEMBER_NEW, [JSON.stringify(fresh), now]),
      latest.length === 0 ? [] : sql.run(REMEMBER_LATEST, [JSON.stringify(latest)]),
    ]);
    if (written.length !== fresh.length) throw new LostRace("a repeat of a delivery was accepted meanwhile");
  }
}
