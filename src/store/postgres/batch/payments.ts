import type { PaymentIntent, PaymentKey } from "../../../core/payment.ts";
import type { BeginPaymentOutcome } from "../../contract/payment-journal.ts";
import type { NewCall } from "../../new-call.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRecord, toPaymentRow } from "../../payment-row.ts";
import { LostRace } from "../connection/database-errors.ts";
import {
  FIND_PAYMENTS_BY_FINGERPRINT,
  keyColumns,
  normalKey,
  PAYMENT_COLUMN_LIST,
} from "../payment-statements.ts";
import { type Sql, statement, storable } from "../sql.ts";
import type { BatchContext, BatchPart } from "./batch-context.ts";
import { createCallerNonces } from "./caller-nonces.ts";
import { insertCalls } from "./new-rows.ts";
import { type Entry, entriesOf, type Operations } from "./operations.ts";

// In one order in all batches, so that no two wait for each other.
const LOCK_PAYMENTS = statement<PaymentRow>(
  "lock_payments",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce) ORDER BY call_id FOR UPDATE OF payments`,
);
const SELECT_RECEIPTS = statement<{ receipt: string }>(
  "select_receipts",
  "SELECT receipt FROM jobgate.payments WHERE receipt = ANY ($1::text[]) AND state <> 'failed'",
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
type Begun = { readonly callId: number; readonly call: NewCall; readonly row: PaymentRow };

/** The {@link PaymentJournal} operations that write. */
export function paymentsPart(entries: readonly (Begin | Decision)[]): BatchPart {
  // Of what was asked for at the same time, what ends a payment comes before what begins one.
  const decisions = entriesOf(entries, "settlePayment", "failPayment", "leavePaymentUnresolved");
  const begins = entriesOf(entries, "beginPayment");
  const intents = begins.map(({ input }) => input.intent);

  const byKey = new Map<string, PaymentRow>();
  const byFingerprint = new Map<string, PaymentRow>();
  const usedReceipts = new Set<string>();
  const nonces = createCallerNonces(intents.flatMap(({ callerNonce }) => callerNonce ?? []));

  const decided = new Set<PaymentRow>();
  const settledIds: number[] = [];
  const failedIds: number[] = [];
  const begun: Begun[] = [];

  function remember(row: PaymentRow): void {
    byKey.set(keyText(row), row);
    byFingerprint.set(row.fingerprint, row);
  }

  function settle(
    { key, settlement }: Operations["settlePayment"]["input"],
    { now, madeReady }: BatchContext,
  ): Operations["settlePayment"]["outcome"] {
    const row = find(key);
    if (row === undefined || row.state === "failed") return { kind: "not_open" };
    const changed = row.state !== "settled";
    if (changed) {
      change(row, { state: "settled", settlement, reason: null, updated_at: now });
      settledIds.push(row.call_id);
      madeReady.add(row.call_id);
    }
    return { kind: "settled", callId: row.call_id, changed };
  }

  function fail(
    { key, settlement, reason }: Operations["failPayment"]["input"],
    { now, capacity }: BatchContext,
  ): Operations["failPayment"]["outcome"] {
    const row = find(key);
    if (row?.state !== "intent" && row?.state !== "unresolved") return { kind: "not_open" };
    change(row, { state: "failed", settlement, reason: storable(reason), updated_at: now });
    failedIds.push(row.call_id);
    capacity.adjust(-1);
    usedReceipts.delete(row.receipt);
    const { callerNonce } = toPaymentRecord(row);
    if (callerNonce !== undefined) nonces.free(callerNonce, row.call_id);
    return { kind: "failed" };
  }

  function leaveUnresolved(
    { key, reason }: Operations["leavePaymentUnresolved"]["input"],
    { now }: BatchContext,
  ): boolean {
    const row = find(key);
    if (row?.state !== "intent") return false;
    change(row, { state: "unresolved", reason: storable(reason), updated_at: now });
    return true;
  }

  function decide(entry: Decision, context: BatchContext): void {
    if (entry.name === "settlePayment") entry.decide(settle(entry.input, context));
    else if (entry.name === "failPayment") entry.decide(fail(entry.input, context));
    else entry.decide(leaveUnresolved(entry.input, context));
  }

  function find(key: PaymentKey): PaymentRow | undefined {
    return byKey.get(keyText(normalKey(key)));
  }

  function change(row: PaymentRow, values: Partial<PaymentRow>): void {
    Object.assign(row, values);
    decided.add(row);
  }

  function begin({ intent, call }: Begin["input"], context: BatchContext): BeginPaymentOutcome {
    const { now, capacity } = context;
    const known = find(intent.key) ?? byFingerprint.get(intent.fingerprint);
    if (known !== undefined) return { kind: "payment_known", record: toPaymentRecord(known) };
    const { callerNonce } = intent;
    if (callerNonce !== undefined) {
      // One that expired on the way here may have been used, and forgotten since.
      const mayBeForgotten = callerNonce.expiresAt * 1000 <= now;
      if (mayBeForgotten || nonces.isUsed(callerNonce, now)) return { kind: "caller_nonce_used" };
    }
    const receipt = usedReceipts.has(intent.receipt) ? intent.spareReceipt : intent.receipt;
    if (receipt === undefined) return { kind: "receipt_used" };
    if (!capacity.hasRoom()) return { kind: "queue_full" };
    const callId = context.takeCallId();
    const row = toRow({ ...intent, receipt }, callId, now);
    remember(row);
    usedReceipts.add(receipt);
    capacity.adjust(1);
    if (callerNonce !== undefined) nonces.use(callerNonce, callId);
    begun.push({ callId, call, row });
    return { kind: "begun", callId, receipt };
  }

  async function insertBegun(sql: Sql): Promise<void> {
    if (begun.length === 0) return;
    const written = await sql.run(INSERT_PAYMENTS, [JSON.stringify(begun.map(({ row }) => row))]);
    if (written.length !== begun.length) throw new LostRace("a payment was begun elsewhere meanwhile");
  }

  return {
    callIds: begins.length,
    async load(sql) {
      if (entries.length === 0) return;
      const keys: PaymentKey[] = [
        ...decisions.map(({ input }) => input.key),
        ...intents.map(({ key }) => key),
      ];
      const [locked, alike, receipts] = await Promise.all([
        sql.run(LOCK_PAYMENTS, keyColumns(keys)),
        intents.length === 0
          ? []
          : sql.run(FIND_PAYMENTS_BY_FINGERPRINT, [intents.map(({ fingerprint }) => fingerprint)]),
        intents.length === 0
          ? []
          : sql.run(SELECT_RECEIPTS, [
              intents.flatMap(({ receipt, spareReceipt = receipt }) => [receipt, spareReceipt]),
            ]),
        nonces.load(sql),
      ]);
      // The locked rows last: they can be changed, and are what is changed.
      for (const row of [...alike, ...locked]) remember(row);
      for (const { receipt } of receipts) usedReceipts.add(receipt);
    },
    async write(context) {
      const { sql, now } = context;
      for (const entry of decisions) decide(entry, context);
      for (const { input, decide } of begins) decide(begin(input, context));
      await Promise.all([
        decided.size === 0 ? [] : sql.run(DECIDE_PAYMENTS, [JSON.stringify([...decided])]),
        settledIds.length === 0 ? [] : sql.run(RELEASE_HELD_CALLS, [settledIds, now]),
        failedIds.length === 0 ? [] : sql.run(DROP_HELD_CALLS, [failedIds]),
        insertBegun(sql),
        nonces.write(sql, now),
        insertCalls(sql, begun, "held", now),
      ]);
    },
  };
}

function toRow(intent: PaymentIntent, callId: number, now: number): PaymentRow {
  const row = toPaymentRow(intent, callId, now);
  return { ...row, ...normalKey(intent.key), caller: row.caller?.toLowerCase() ?? null };
}

function keyText({ network, asset, payer, nonce }: PaymentKey | PaymentRow): string {
  return `${network} ${asset} ${payer} ${nonce}`;
}
