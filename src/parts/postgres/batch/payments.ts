import {
  beginsReady,
  ceilingOf,
  normalKey,
  oneSpelling,
  type PaymentIntent,
  type PaymentKey,
} from "../../../core/payment.ts";
import { WATCHED_MS } from "../../../store/contract/payment-journal.ts";
import {
  type BeginRows,
  beginStep,
  PAYMENT_STEPS,
  type PaymentStep,
  paymentSteps,
} from "../../../store/machine/payment-steps.ts";
import { gateOf } from "../../../store/modules/modules.ts";
import type { NewCall } from "../../../store/new-call.ts";
import { ENDED_AT_ONCE, type OldWatch, selectOldWatches } from "../../../store/payment-queries.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRow } from "../../../store/payment-row.ts";
import { hasKeptBody } from "../../../store/rules/payments.ts";
import { LostRace } from "../connection/database-errors.ts";
import { LIST_DIALECT, type Sql, statement, storable } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";
import { insertCalls } from "./new-rows.ts";
import { DROP_BODIES, END_WATCHES } from "./payment-rows.ts";
import { Undecided } from "./undecided.ts";

const SET_CEILINGS = statement(
  "set_ceilings",
  `UPDATE jobgate.job_calls SET ceiling = new ->> 1, min_charge = new ->> 2
     FROM json_array_elements($1::json) AS new WHERE call_id = (new ->> 0)::bigint`,
);
const INSERT_PAYMENTS = statement<{ call_id: number }>(
  "insert_payments",
  `INSERT INTO jobgate.payments (${PAYMENT_COLUMNS.join(", ")})
   SELECT ${PAYMENT_COLUMNS.join(", ")} FROM json_populate_recordset(NULL::jobgate.payments, $1::json)
    ORDER BY network, asset, payer, nonce
   ON CONFLICT DO NOTHING RETURNING call_id`,
);

// Skips watches that another batch is ending.
const LOCK_OLD_WATCHES = statement<OldWatch>(
  "lock_old_watches",
  `${selectOldWatches(LIST_DIALECT, "$1")} FOR UPDATE OF watch SKIP LOCKED`,
);

type Begin = Entry<"beginPayment">;
type Decision = Entry<PaymentStep>;

/** Payment operations that write. Operations that end a payment come before operations that begin a payment. */
export class PaymentsPart implements BatchPart {
  readonly callIds: number;
  readonly #decisions: readonly Decision[];
  readonly #begins: readonly Begin[];
  readonly #endWatches: readonly Entry<"endWatches">[];
  readonly #undecided: Undecided;
  readonly #begun: {
    readonly callId: number;
    readonly call: NewCall;
    readonly row: PaymentRow;
    readonly ceiling: string | null;
    readonly minCharge: string | undefined;
  }[] = [];

  /** @param now replaces the database's clock */
  constructor(entries: readonly (Begin | Decision | Entry<"endWatches">)[], now: number | null) {
    this.#undecided = new Undecided(now);
    this.#decisions = entriesOf(entries, ...PAYMENT_STEPS);
    this.#endWatches = entriesOf(entries, "endWatches");
    this.#begins = entriesOf(entries, "beginPayment");
    this.callIds = this.#begins.length;
  }

  async load(sql: Sql, effects: PostgresEffects): Promise<void> {
    const intents = this.#begins.map(({ input: [intent] }) => intent);
    const keys = [...this.#decisions.map(({ input: [key] }) => key), ...intents.map(({ key }) => key)];
    if (keys.length === 0) return;
    const gateKeys = intents.flatMap((intent) => gateOf(intent)?.keys(intent) ?? []);
    for (const key of gateKeys) effects.rows.willNeed(key);
    const isChanging = gateKeys.length > 0 || intents.some(({ settlement }) => settlement !== undefined);
    if (this.#decisions.length > 0 || isChanging) effects.willChange();
    await Promise.all([
      this.#lockPayments(sql, effects, keys, intents),
      effects.paymentRows.nonces.load(
        sql,
        intents.flatMap(({ oneTimeNonces = [] }) => oneTimeNonces),
      ),
      this.#undecided.load(
        sql,
        intents.map(({ key }) => normalKey(key).payer),
        this.#begins.flatMap(({ input }) => input[2] ?? []),
      ),
      this.#undecided.loadOpen(
        sql,
        this.#begins.flatMap(({ input: [{ key }, , limits] }) =>
          limits?.funds === undefined ? [] : normalKey(key).payer,
        ),
        Math.max(0, ...this.#begins.map(({ input: [, , limits] }) => limits?.fundsAgeMs ?? 0)),
      ),
    ]);
  }

  async #lockPayments(
    sql: Sql,
    effects: PostgresEffects,
    keys: readonly PaymentKey[],
    intents: readonly PaymentIntent[],
  ): Promise<void> {
    await effects.lockPayments(sql, keys, intents);
    const contradicted = entriesOf(this.#decisions, "contradictPayment");
    const callIds = contradicted.flatMap(
      ({ input: [key] }) => effects.paymentRows.known.find(key)?.call_id ?? [],
    );
    if (callIds.length === 0) return;
    effects.willEnd(callIds);
    await effects.load(sql);
  }

  async write(context: BatchContext): Promise<void> {
    const { sql, now, effects } = context;
    const { paymentRows } = effects;
    const steps = paymentSteps((key) => paymentRows.known.find(key), effects) as Record<string, AnyStep>;
    for (const { name, input, decide } of this.#decisions as readonly AnyDecision[])
      decide(steps[name]?.(now, ...input.map(storableInput)));
    // These operations run before new payments begin, because a new payment may have the name of a failed payment.
    const decisions = paymentRows.write(context);
    const begin = beginStep(this.#beginRows(context), context.capacity, effects);
    for (const { input, decide } of this.#begins) decide(begin(now, ...input));
    await Promise.all([
      decisions,
      ...this.#endWatches.map((entry) => endWatches(sql, now, entry)),
      this.#insertBegun(sql),
      paymentRows.nonces.write(sql, now),
      this.#insertCalls(sql, now),
    ]);
  }

  /** Rows of payments that begin. They are written once all have begun. */
  #beginRows({ takeCallId, madeReady, effects }: BatchContext): BeginRows {
    const { known, nonces } = effects.paymentRows;
    return {
      findRepeated: (intent) => known.findRepeated(intent),
      isNonceUsed: (nonce, now) => nonces.isUsed(nonce, now),
      undecided: (payer) => this.#undecided.count(oneSpelling(payer)),
      openUnits: (key) => this.#undecided.openUnits(normalKey(key)),
      add: (intent, call, now) => {
        const callId = takeCallId();
        const row = toPaymentRow(intent, callId, now);
        known.add(row);
        this.#begun.push({ callId, call, row, ceiling: ceilingOf(intent), minCharge: intent.minCharge });
        if (beginsReady(intent)) madeReady.add(callId);
        if (intent.charge !== "before") this.#undecided.add(normalKey(intent.key), intent.amount);
        return row;
      },
      useNonce: (nonce, callId) => nonces.use(nonce, callId),
    };
  }

  async #insertCalls(sql: Sql, now: number): Promise<void> {
    const limited = this.#begun.filter(({ ceiling }) => ceiling !== null);
    const ready = this.#begun.filter(({ row }) => row.state !== "intent");
    const held = this.#begun.filter(({ row }) => row.state === "intent");
    const ceilings = limited.map(({ callId, ceiling, minCharge = null }) => [callId, ceiling, minCharge]);
    await Promise.all([
      insertCalls(sql, held, "held", now),
      insertCalls(sql, ready, "ready", now),
      ceilings.length === 0 ? [] : sql.run(SET_CEILINGS, [JSON.stringify(ceilings)]),
    ]);
  }

  async #insertBegun(sql: Sql): Promise<void> {
    if (this.#begun.length === 0) return;
    const written = await sql.run(INSERT_PAYMENTS, [JSON.stringify(this.#begun.map(({ row }) => row))]);
    if (written.length !== this.#begun.length) throw new LostRace("a payment was begun elsewhere meanwhile");
  }
}

type AnyStep = (now: number, ...input: readonly unknown[]) => unknown;
type AnyDecision = {
  readonly name: string;
  readonly input: readonly unknown[];
  decide(outcome: unknown): void;
};

function storableInput(value: unknown): unknown {
  return typeof value === "string" ? storable(value) : value;
}

async function endWatches(sql: Sql, now: number, { decide }: Entry<"endWatches">): Promise<void> {
  const old = await sql.run(LOCK_OLD_WATCHES, [now - WATCHED_MS]);
  if (old.length > 0)
    await Promise.all([
      sql.run(END_WATCHES, [old.map(({ call_id }) => call_id)]),
      sql.run(DROP_BODIES, [old.filter(hasKeptBody).map(({ call_id }) => call_id)]),
    ]);
  decide(old.length === ENDED_AT_ONCE);
}
