import {
  type DeliveryRow,
  FORGOTTEN_AT_ONCE,
  type IntakeRows,
  IntakeSteps,
} from "../../../store/machine/intake.ts";
import type { NewCall } from "../../../store/new-call.ts";
import { LostRace } from "../connection/database-errors.ts";
import { type Sql, statement } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";
import { insertCalls, insertOrderedCalls } from "./new-rows.ts";

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

type Accept = Entry<"accept" | "acceptOnce">;

/** The Intake's operations. */
export class AcceptsPart implements BatchPart {
  readonly callIds: number;
  readonly #entries: readonly Accept[];
  readonly #accepted: { callId: number; call: NewCall }[] = [];
  readonly #withheld = new Set<number>();
  readonly #known = new Map<string, DeliveryRow>();
  /** Keys that are new to this batch. No other batch may have written them in the meantime. */
  readonly #fresh = new Map<string, DeliveryRow>();
  readonly #latest = new Map<string, DeliveryRow>();

  constructor(entries: readonly Accept[]) {
    this.callIds = entries.length;
    this.#entries = entries;
  }

  async load(sql: Sql, effects: PostgresEffects): Promise<void> {
    for (const { order } of this.#entries.map(({ input: [call] }) => call))
      if (order !== undefined) effects.keys.willAdd(order);
    const deliveries = entriesOf(this.#entries, "acceptOnce").map(({ input: [, delivery] }) => delivery);
    if (deliveries.length === 0) return;
    const keys = deliveries.flatMap((delivery) => delivery.keys.map(({ key }) => key));
    for (const row of await sql.run(SELECT, [keys])) this.#known.set(row.key, row);
  }

  async write(context: BatchContext): Promise<void> {
    const { sql, now, capacity } = context;
    const steps = new IntakeSteps(this.#rows(context), capacity, context.effects.rows);
    for (const entry of this.#entries) {
      if (entry.name === "accept") entry.decide(steps.accept(now, ...entry.input));
      else entry.decide(steps.acceptOnce(now, ...entry.input));
    }
    const unordered = this.#accepted.filter(({ call }) => call.order === undefined);
    const ordered = this.#accepted.flatMap(({ callId, call }) =>
      call.order === undefined ? [] : { callId, call, order: call.order, isHeld: this.#withheld.has(callId) },
    );
    await Promise.all([
      insertCalls(sql, unordered, "ready", now),
      insertOrderedCalls(sql, ordered, now),
      this.#writeDeliveries(sql, now),
    ]);
  }

  #rows({ takeCallId, madeReady, effects }: BatchContext): IntakeRows {
    return {
      add: (call) => {
        const callId = takeCallId();
        madeReady.add(callId);
        this.#accepted.push({ callId, call });
        return callId;
      },
      withhold: (callId, { orderKey }) => {
        madeReady.delete(callId);
        this.#withheld.add(callId);
        effects.keys.withheld(callId, orderKey);
      },
      find: (key) => this.#known.get(key),
      remember: (row, identifies) => {
        const { key } = row;
        this.#known.set(key, row);
        const isFresh = identifies || this.#fresh.has(key);
        (isFresh ? this.#fresh : this.#latest).set(key, row);
        if (isFresh) this.#latest.delete(key);
      },
    };
  }

  /** @throws LostRace when another batch has accepted a repeat in the meantime */
  async #writeDeliveries(sql: Sql, now: number): Promise<void> {
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
