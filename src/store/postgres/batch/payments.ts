import type { PaymentIntent, PaymentKey, PaymentRecord } from "../../../core/payment.ts";
import type {
  BeginPaymentOutcome,
  FailPaymentOutcome,
  SettlePaymentOutcome,
} from "../../contract/payment-journal.ts";
import type { NewCall } from "../../new-call.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRecord, toPaymentRow } from "../../payment-row.ts";
import { beginDecision, canBecome } from "../../rules/payments.ts";
import { LostRace } from "../connection/database-errors.ts";
import {
  FIND_PAYMENTS_BY_FINGERPRINT,
  keyColumns,
  normalKey,
  PAYMENT_COLUMN_LIST,
} from "../payment-statements.ts";
import { type Sql, statement, storable } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import { CallerNonces } from "./caller-nonces.ts";
import { insertCalls } from "./new-rows.ts";
import { Undecided } from "./undecided.ts";

// In the same order in all batches, so that no two wait for each other.
const LOCK_PAYMENTS = statement<PaymentRow>(
  "lock_payments",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce) ORDER BY call_id FOR UPDATE OF payments`,
);
const SELECT_REDEEMED = statement<{ receipt: string }>(
  "select_redeemed",
  `SELECT receipt FROM jobgate.payments
    WHERE receipt = ANY ($1::text[]) AND redeems_quote = 1 AND state <> 'failed'`,
);
const DECIDE_PAYMENTS = statement(
  "decide_payments",
  `UPDATE jobgate.payments AS payment
      SET state = new.state, settlement = new.settlement, reason = new.reason, updated_at = new.updated_at
     FROM json_populate_recordset(NULL::jobgate.payments, $1::json) AS new WHERE payment.call_id = new.call_id`,
);
// The client waits for its job from here on, so this is when it was enqueued.
const RELEASE_HELD_CALLS = statement(
  "release_held_calls",
  `UPDATE jobgate.job_calls SET state = 'ready', enqueued_at = $2
    WHERE call_id = ANY ($1::bigint[]) AND state = 'held'`,
);
const DROP_HELD_CALLS = statement(
  "drop_held_calls",
  `WITH dropped AS (
     DELETE FROM jobgate.job_calls WHERE call_id = ANY ($1::bigint[]) AND state = 'held' RETURNING call_id)
   DELETE FROM jobgate.job_bodies USING dropped WHERE job_bodies.call_id = dropped.call_id`,
);
const INSERT_PAYMENTS = statement<{ call_id: number }>(
  "insert_payments",
  `INSERT INTO jobgate.payments (${PAYMENT_COLUMNS.join(", ")})
   SELECT ${PAYMENT_COLUMNS.join(", ")} FROM json_populate_recordset(NULL::jobgate.payments, $1::json)
    ORDER BY network, asset, payer, nonce
   ON CONFLICT DO NOTHING RETURNING call_id`,
);

type Begin = Entry<"beginPayment">;
type Decision = Entry<"settlePayment" | "failPayment" | "leavePaymentUnresolved">;

/** Payment operations that write. Those that end a payment come before those that begin one. */
export class PaymentsPart implements BatchPart {
  readonly callIds: number;
  readonly #decisions: readonly Decision[];
  readonly #begins: readonly Begin[];
  readonly #intents: readonly PaymentIntent[];
  readonly #byKey = new Map<string, PaymentRow>();
  readonly #byFingerprint = new Map<string, PaymentRow>();
  readonly #paidQuotes = new Set<string>();
  readonly #nonces: CallerNonces;
  readonly #undecided: Undecided;
  readonly #decided = new Set<PaymentRow>();
  readonly #settledIds: number[] = [];
  readonly #failedIds: number[] = [];
  readonly #begun: { readonly callId: number; readonly call: NewCall; readonly row: PaymentRow }[] = [];

  /** @param now replaces the database's clock */
  constructor(entries: readonly (Begin | Decision)[], now: number | null) {
    this.#undecided = new Undecided(now);
    this.#decisions = entriesOf(entries, "settlePayment", "failPayment", "leavePaymentUnresolved");
    this.#begins = entriesOf(entries, "beginPayment");
    this.#intents = this.#begins.map(({ input }) => input[0]);
    this.#nonces = new CallerNonces(this.#intents.flatMap(({ callerNonce }) => callerNonce ?? []));
    this.callIds = this.#begins.length;
  }

  async load(sql: Sql): Promise<void> {
    const intents = this.#intents;
    const keys = [...this.#decisions.map(({ input }) => input[0]), ...intents.map(({ key }) => key)];
    if (keys.length === 0) return;
    const quotes = intents.flatMap(({ receipt, redeemsQuote }) => (redeemsQuote ? receipt : []));
    const fingerprints = intents.map(({ fingerprint }) => fingerprint);
    const [locked, alike, redeemed] = await Promise.all([
      sql.run(LOCK_PAYMENTS, keyColumns(keys)),
      intents.length === 0 ? [] : sql.run(FIND_PAYMENTS_BY_FINGERPRINT, [fingerprints]),
      quotes.length === 0 ? [] : sql.run(SELECT_REDEEMED, [quotes]),
      this.#nonces.load(sql),
      this.#undecided.load(
        sql,
        intents.map(({ key }) => normalKey(key).payer),
        this.#begins.flatMap(({ input }) => input[2] ?? []),
      ),
    ]);
    // The locked rows last: those are the rows that change.
    for (const row of [...alike, ...locked]) this.#remember(row);
    for (const { receipt } of redeemed) this.#paidQuotes.add(receipt);
  }

  async write(context: BatchContext): Promise<void> {
    for (const entry of this.#decisions) {
      if (entry.name === "settlePayment") entry.decide(this.#settle(...entry.input, context));
      else if (entry.name === "failPayment") entry.decide(this.#fail(...entry.input, context));
      else entry.decide(this.#leaveUnresolved(...entry.input, context));
    }
    for (const { input, decide } of this.#begins) decide(this.#begin(input, context));
    const { sql, now } = context;
    await Promise.all([
      this.#decided.size === 0 ? [] : sql.run(DECIDE_PAYMENTS, [JSON.stringify([...this.#decided])]),
      this.#settledIds.length === 0 ? [] : sql.run(RELEASE_HELD_CALLS, [this.#settledIds, now]),
      this.#failedIds.length === 0 ? [] : sql.run(DROP_HELD_CALLS, [this.#failedIds]),
      this.#insertBegun(sql),
      this.#nonces.write(sql, now),
      insertCalls(sql, this.#begun, "held", now),
    ]);
  }

  #settle(key: PaymentKey, settlement: string, { now, madeReady }: BatchContext): SettlePaymentOutcome {
    const row = this.#find(key);
    if (row === undefined) return { kind: "not_open" };
    const callId = row.call_id;
    if (row.state === "settled")
      return { kind: "settled", callId, changed: false, record: toPaymentRecord(row) };
    if (!canBecome("settled", row.state)) return { kind: "not_open" };
    const record = this.#change(row, { state: "settled", settlement, reason: null, updated_at: now });
    this.#settledIds.push(callId);
    madeReady.add(callId);
    return { kind: "settled", callId, changed: true, record };
  }

  #fail(
    key: PaymentKey,
    settlement: string,
    reason: string,
    { now, capacity }: BatchContext,
  ): FailPaymentOutcome {
    const row = this.#find(key);
    if (row === undefined || !canBecome("failed", row.state)) return { kind: "not_open" };
    const values = { settlement, reason: storable(reason), updated_at: now };
    const record = this.#change(row, { state: "failed", ...values });
    this.#failedIds.push(row.call_id);
    capacity.adjust(-1);
    if (row.redeems_quote === 1) this.#paidQuotes.delete(row.receipt);
    if (record.callerNonce !== undefined) this.#nonces.free(record.callerNonce, row.call_id);
    return { kind: "failed", record };
  }

  #leaveUnresolved(key: PaymentKey, reason: string, { now }: BatchContext): PaymentRecord | undefined {
    const row = this.#find(key);
    if (row === undefined || !canBecome("unresolved", row.state)) return undefined;
    return this.#change(row, { state: "unresolved", reason: storable(reason), updated_at: now });
  }

  #begin([intent, call, limits]: Begin["input"], context: BatchContext): BeginPaymentOutcome {
    const { now, capacity } = context;
    const { callerNonce } = intent;
    const known = this.#find(intent.key) ?? this.#byFingerprint.get(intent.fingerprint);
    const decision = beginDecision({
      intent,
      known: known && toPaymentRecord(known),
      isNonceUsed: callerNonce !== undefined && this.#nonces.isUsed(callerNonce, now),
      isQuotePaid: intent.redeemsQuote === true && this.#paidQuotes.has(intent.receipt),
      hasRoom: capacity.hasRoom(),
      undecided: this.#undecided.count(normalKey(intent.key).payer),
      limits,
      now,
    });
    if (decision.kind !== "begin") return decision;
    const callId = context.takeCallId();
    const row = toRow(intent, callId, now);
    this.#remember(row);
    if (intent.redeemsQuote) this.#paidQuotes.add(intent.receipt);
    capacity.adjust(1);
    if (callerNonce !== undefined) this.#nonces.use(callerNonce, callId);
    this.#begun.push({ callId, call, row });
    return { kind: "begun", callId };
  }

  async #insertBegun(sql: Sql): Promise<void> {
    if (this.#begun.length === 0) return;
    const written = await sql.run(INSERT_PAYMENTS, [JSON.stringify(this.#begun.map(({ row }) => row))]);
    if (written.length !== this.#begun.length) throw new LostRace("a payment was begun elsewhere meanwhile");
  }

  #find(key: PaymentKey): PaymentRow | undefined {
    return this.#byKey.get(keyText(normalKey(key)));
  }

  #remember(row: PaymentRow): void {
    this.#byKey.set(keyText(row), row);
    this.#byFingerprint.set(row.fingerprint, row);
  }

  /** @returns the payment as it is now */
  #change(row: PaymentRow, values: Partial<PaymentRow>): PaymentRecord {
    Object.assign(row, values);
    this.#decided.add(row);
    return toPaymentRecord(row);
  }
}

function toRow(intent: PaymentIntent, callId: number, now: number): PaymentRow {
  const row = toPaymentRow(intent, callId, now);
  return { ...row, ...normalKey(intent.key), caller: row.caller?.toLowerCase() ?? null };
}

function keyText({ network, asset, payer, nonce }: PaymentKey | PaymentRow): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}
