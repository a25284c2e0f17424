import type { PaymentClosing, PaymentIntent, PaymentKey, PaymentRecord } from "../../../core/payment.ts";
import type {
  BeginPaymentOutcome,
  ClosePaymentOutcome,
  FailPaymentOutcome,
  SettlePaymentOutcome,
} from "../../../store/contract/payment-journal.ts";
import type { NewCall } from "../../../store/new-call.ts";
import {
  PAYMENT_COLUMNS,
  type PaymentRow,
  toPaymentRecord,
  toPaymentRow,
} from "../../../store/payment-row.ts";
import {
  beginDecision,
  canBecome,
  canClose,
  closedSettlement,
  settledReason,
} from "../../../store/rules/payments.ts";
import { LostRace } from "../connection/database-errors.ts";
import { normalKey } from "../shared-statements.ts";
import { type Sql, statement, storable } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import { CallerNonces } from "./caller-nonces.ts";
import type { PostgresEffects } from "./effects.ts";
import { KnownPayments, type KnownRow } from "./known-payments.ts";
import { insertCalls } from "./new-rows.ts";
import { Undecided } from "./undecided.ts";
import { Watches } from "./watches.ts";

const SELECT_REDEEMED = statement<{ receipt: string }>(
  "select_redeemed",
  `SELECT receipt FROM jobgate.payments
    WHERE receipt = ANY ($1::text[]) AND redeems_quote = 1 AND state <> 'failed'`,
);
const DECIDE_PAYMENTS = statement(
  "decide_payments",
  `UPDATE jobgate.payments AS payment
      SET state = new.state, amount = new.amount, settlement = new.settlement, block_number = new.block_number, reason = new.reason,
          closed = new.closed, payment_id = new.payment_id, redeems_quote = new.redeems_quote, updated_at = new.updated_at
     FROM json_populate_recordset(NULL::jobgate.payments, $1::json) AS new WHERE payment.call_id = new.call_id`,
);
// The client waits for its job from here on, so this is when it was enqueued.
const RELEASE_HELD_CALLS = statement(
  "release_held_calls",
  `UPDATE jobgate.job_calls SET state = 'ready', enqueued_at = $2
    WHERE call_id = ANY ($1::bigint[]) AND state = 'held'`,
);
// Keeps the bodies.
const DROP_HELD_CALLS = statement(
  "drop_held_calls",
  "DELETE FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) AND state = 'held'",
);
const REQUEUE_KEPT_CALLS = statement(
  "requeue_kept_calls",
  `INSERT INTO jobgate.job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
   SELECT call_id, 'x402', job_index::text, service_id, 'ready', $2 FROM jobgate.payments WHERE call_id = ANY ($1::bigint[])`,
);
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

type Begin = Entry<"beginPayment">;
type Settle = Entry<"settlePayment">["input"];
type Decision = Entry<
  "settlePayment" | "failPayment" | "leavePaymentUnresolved" | "closePayment" | "contradictPayment"
>;

/** Payment operations that write. Those that end a payment come before those that begin one. */
export class PaymentsPart implements BatchPart {
  readonly callIds: number;
  readonly #decisions: readonly Decision[];
  readonly #begins: readonly Begin[];
  readonly #intents: readonly PaymentIntent[];
  readonly #known = new KnownPayments();
  readonly #paidQuotes = new Set<string>();
  readonly #nonces: CallerNonces;
  readonly #undecided: Undecided;
  readonly #watches: Watches;
  readonly #decided = new Set<PaymentRow>();
  readonly #settledIds: number[] = [];
  readonly #failedIds: number[] = [];
  readonly #requeuedIds: number[] = [];
  readonly #begun: {
    readonly callId: number;
    readonly call: NewCall;
    readonly row: PaymentRow;
    readonly minCharge: string | undefined;
  }[] = [];

  /** @param now replaces the database's clock */
  constructor(entries: readonly (Begin | Decision | Entry<"endWatches">)[], now: number | null) {
    this.#undecided = new Undecided(now);
    this.#decisions = entriesOf(
      entries,
      "settlePayment",
      "failPayment",
      "leavePaymentUnresolved",
      "closePayment",
      "contradictPayment",
    );
    this.#watches = new Watches(entriesOf(entries, "endWatches"));
    this.#begins = entriesOf(entries, "beginPayment");
    this.#intents = this.#begins.map(({ input }) => input[0]);
    this.#nonces = new CallerNonces(this.#intents.flatMap(({ callerNonce }) => callerNonce ?? []));
    this.callIds = this.#begins.length;
  }

  async load(sql: Sql, effects: PostgresEffects): Promise<void> {
    const intents = this.#intents;
    const keys = [...this.#decisions.map(({ input }) => input[0]), ...intents.map(({ key }) => key)];
    if (keys.length === 0) return;
    const quotes = intents.flatMap(({ receipt, redeemsQuote }) => (redeemsQuote ? receipt : []));
    const [redeemed] = await Promise.all([
      quotes.length === 0 ? [] : sql.run(SELECT_REDEEMED, [quotes]),
      this.#known.load(sql, keys, intents),
      this.#nonces.load(sql),
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
    for (const { receipt } of redeemed) this.#paidQuotes.add(receipt);
    for (const row of this.#known.locked()) effects.use(row, row.has_succeeded === true);
  }

  async write(context: BatchContext): Promise<void> {
    for (const entry of this.#decisions) {
      if (entry.name === "settlePayment") entry.decide(this.#settle(entry.input, context));
      else if (entry.name === "failPayment") entry.decide(this.#fail(...entry.input, context));
      else if (entry.name === "closePayment") entry.decide(this.#close(...entry.input, context));
      else if (entry.name === "contradictPayment") entry.decide(this.#contradict(entry.input, context));
      else entry.decide(this.#leaveUnresolved(...entry.input, context));
    }
    for (const { input, decide } of this.#begins) decide(this.#begin(input, context));
    const { sql, now } = context;
    await Promise.all([
      this.#decided.size === 0 ? [] : sql.run(DECIDE_PAYMENTS, [JSON.stringify([...this.#decided])]),
      this.#settledIds.length === 0 ? [] : sql.run(RELEASE_HELD_CALLS, [this.#settledIds, now]),
      this.#failedIds.length === 0 ? [] : sql.run(DROP_HELD_CALLS, [this.#failedIds]),
      this.#requeuedIds.length === 0 ? [] : sql.run(REQUEUE_KEPT_CALLS, [this.#requeuedIds, now]),
      this.#watches.write(sql, now),
      this.#insertBegun(sql),
      this.#nonces.write(sql, now),
      this.#insertCalls(sql, now),
    ]);
  }

  #settle([key, settlement, block, moved]: Settle, context: BatchContext): SettlePaymentOutcome {
    const row = this.#known.find(key);
    if (row === undefined) return { kind: "not_open" };
    const callId = row.call_id;
    if (row.state === "settled")
      return { kind: "settled", callId, changed: false, record: toPaymentRecord(row) };
    const amount = moved ?? row.amount;
    const values = { amount, settlement, block_number: block ?? null, reason: settledReason(row) };
    const record = canBecome("settled", row.state) ? this.#queue(row, values, context) : undefined;
    return record === undefined ? { kind: "not_open" } : { kind: "settled", callId, changed: true, record };
  }

  /** Settles a payment and queues its JobCall, held or kept. @returns undefined if that is gone */
  #queue(row: KnownRow, values: Partial<PaymentRow>, context: BatchContext): PaymentRecord | undefined {
    const { capacity, madeReady } = context;
    const callId = row.call_id;
    const settled = { ...values, state: "settled" } as const;
    const hasRun = row.ceiling !== null;
    if (row.state !== "failed") {
      if (!hasRun) {
        madeReady.add(callId);
        this.#settledIds.push(callId);
      }
      return this.#change(row, settled, context);
    }
    // What a failed payment by use moved may have paid for something else.
    if (hasRun || row.is_watched !== true) return undefined;
    this.#watches.end(row);
    madeReady.add(callId);
    this.#requeuedIds.push(callId);
    capacity.adjust(1);
    // Under its identifier, and for its quote, another payment may have been made since.
    const payment_id = this.#known.isIdentifierTaken(row) ? null : row.payment_id;
    const record = this.#change(row, { ...settled, payment_id, redeems_quote: 0 }, context);
    this.#known.add(row);
    if (record.callerNonce !== undefined) this.#nonces.useAgain(record.callerNonce, callId);
    return record;
  }

  #fail(key: PaymentKey, settlement: string, reason: string, context: BatchContext): FailPaymentOutcome {
    const row = this.#known.find(key);
    if (row === undefined || !canBecome("failed", row.state)) return { kind: "not_open" };
    return { kind: "failed", record: this.#withhold(row, { settlement, reason: storable(reason) }, context) };
  }

  /** Fails a payment, takes its JobCall out of the queue and watches it. */
  #withhold(row: KnownRow, values: Partial<PaymentRow>, context: BatchContext): PaymentRecord {
    const record = this.#change(row, { ...values, state: "failed" }, context);
    this.#watches.begin(row);
    // One by use has no JobCall to give back: it ran.
    if (row.ceiling === null) {
      this.#failedIds.push(row.call_id);
      context.capacity.adjust(-1);
    }
    if (row.redeems_quote === 1) this.#paidQuotes.delete(row.receipt);
    if (record.callerNonce !== undefined && row.ceiling === null)
      this.#nonces.free(record.callerNonce, row.call_id);
    return record;
  }

  #close(key: PaymentKey, closing: PaymentClosing, context: BatchContext): ClosePaymentOutcome {
    const row = this.#known.find(key);
    if (row === undefined) return { kind: "not_open", record: undefined };
    const { as, by, note } = closing;
    const closed = JSON.stringify({ as, by: storable(by), note: storable(note), at: context.now });
    const values = { settlement: closedSettlement(row, as), closed };
    const isOpen = canClose(row, as, context.now);
    const record =
      as === "paid"
        ? isOpen && this.#queue(row, values, context)
        : isOpen && this.#withhold(row, values, context);
    if (!record) return { kind: "not_open", record: toPaymentRecord(row) };
    this.#watches.begin(row);
    return { kind: "closed", record };
  }

  #contradict(
    [key, reason, settlement]: Entry<"contradictPayment">["input"],
    { effects, now }: BatchContext,
  ): boolean {
    const row = this.#known.find(key);
    if (row?.is_watched !== true) return false;
    this.#watches.end(row);
    Object.assign(row, { reason: storable(reason), settlement: settlement ?? row.settlement });
    this.#decided.add(row);
    effects.note({ kind: "paymentContradicted", payment: row, at: now });
    return true;
  }

  #leaveUnresolved(key: PaymentKey, reason: string, context: BatchContext): PaymentRecord | undefined {
    const row = this.#known.find(key);
    if (row === undefined || !canBecome("unresolved", row.state)) return undefined;
    return this.#change(row, { state: "unresolved", reason: storable(reason) }, context);
  }

  #begin([intent, call, limits]: Begin["input"], context: BatchContext): BeginPaymentOutcome {
    const { now, capacity } = context;
    const { callerNonce } = intent;
    const known = this.#known.findRepeated(intent);
    const decision = beginDecision({
      intent,
      known: known && toPaymentRecord(known),
      isNonceUsed: callerNonce !== undefined && this.#nonces.isUsed(callerNonce, now),
      isQuotePaid: intent.redeemsQuote === true && this.#paidQuotes.has(intent.receipt),
      hasRoom: capacity.hasRoom(),
      undecided: this.#undecided.count(normalKey(intent.key).payer),
      openUnits: this.#undecided.openUnits(normalKey(intent.key)),
      limits,
      now,
    });
    if (decision.kind !== "begin") return decision;
    const callId = context.takeCallId();
    const row = toRow(intent, callId, now);
    this.#known.add(row);
    if (intent.redeemsQuote) this.#paidQuotes.add(intent.receipt);
    capacity.adjust(1);
    if (callerNonce !== undefined) this.#nonces.use(callerNonce, callId);
    this.#begun.push({ callId, call, row, minCharge: intent.minCharge });
    if (intent.ceiling !== undefined) {
      context.madeReady.add(callId);
      this.#undecided.add(normalKey(intent.key), intent.amount);
    }
    return { kind: "begun", callId };
  }

  async #insertCalls(sql: Sql, now: number): Promise<void> {
    const byUse = this.#begun.filter(({ row }) => row.ceiling !== null);
    const held = this.#begun.filter(({ row }) => row.ceiling === null);
    const ceilings = byUse.map(({ callId, row, minCharge = null }) => [callId, row.ceiling, minCharge]);
    await Promise.all([
      insertCalls(sql, held, "held", now),
      insertCalls(sql, byUse, "ready", now),
      ceilings.length === 0 ? [] : sql.run(SET_CEILINGS, [JSON.stringify(ceilings)]),
    ]);
  }

  async #insertBegun(sql: Sql): Promise<void> {
    if (this.#begun.length === 0) return;
    const written = await sql.run(INSERT_PAYMENTS, [JSON.stringify(this.#begun.map(({ row }) => row))]);
    if (written.length !== this.#begun.length) throw new LostRace("a payment was begun elsewhere meanwhile");
  }

  /** Decides a payment. @returns it as it is now */
  #change(
    row: PaymentRow,
    values: Partial<PaymentRow> & Pick<PaymentRow, "state">,
    { effects, now }: BatchContext,
  ): PaymentRecord {
    Object.assign(row, values, { updated_at: now });
    this.#decided.add(row);
    effects.note({ kind: "paymentDecided", payment: row });
    return toPaymentRecord(row);
  }
}

function toRow(intent: PaymentIntent, callId: number, now: number): PaymentRow {
  const row = toPaymentRow(intent, callId, now);
  return { ...row, ...normalKey(intent.key), caller: row.caller?.toLowerCase() ?? null };
}
