import type { CallerNonce, PaymentKey, PaymentRecord } from "../../../core/payment.ts";
import { MAX_WATCHED, WATCHED_MS, YOUNG_MS } from "../../contract/payment-journal.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRecord, toPaymentRow } from "../../payment-row.ts";
import { beginDecision, canBecome, canClose, closedSettlement, settledReason } from "../../rules/payments.ts";
import type { Database, Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";
import type { JobCalls } from "./job-calls.ts";
import type { Undecided } from "./undecided.ts";

export function paymentOperations(
  database: Database,
  jobCalls: JobCalls,
  undecided: Undecided,
  effects: SqliteEffects,
): OperationTable<
  | "beginPayment"
  | "settlePayment"
  | "failPayment"
  | "leavePaymentUnresolved"
  | "closePayment"
  | "contradictPayment"
  | "endWatches"
> {
  const payments = new PaymentFinder(database);
  const nonces = new CallerNonces(database);
  const watches = new Watches(database);
  const selectRedeemed = database.prepare(
    "SELECT 1 FROM payments WHERE receipt = ? AND redeems_quote = 1 AND state <> 'failed'",
  );
  const insertPayment = database.prepare(
    `INSERT INTO payments (${PAYMENT_COLUMNS.join(", ")}) VALUES (${PAYMENT_COLUMNS.map(() => "?").join(", ")})`,
  );
  const updatePayment = database.prepare(
    "UPDATE payments SET state = ?, amount = ?, settlement = ?, block_number = ?, reason = ?, closed = ?, payment_id = ?, redeems_quote = ?, updated_at = ? WHERE call_id = ?",
  );
  // The client waits for its job from here on, so this is when it was enqueued.
  const releaseHeldCall = database.prepare(
    "UPDATE job_calls SET state = 'ready', enqueued_at = ? WHERE call_id = ? AND state = 'held'",
  );

  /** @returns the payment as it is now */
  function change(
    row: PaymentRow,
    values: Partial<
      Pick<
        PaymentRow,
        | "state"
        | "amount"
        | "settlement"
        | "block_number"
        | "reason"
        | "closed"
        | "payment_id"
        | "redeems_quote"
      >
    >,
    now: number,
  ): PaymentRecord {
    const changed = { ...row, ...values, updated_at: now };
    const { state, amount, settlement, block_number, reason, closed, payment_id, redeems_quote, call_id } =
      changed;
    const decision = [state, amount, settlement, block_number, reason, closed, payment_id, redeems_quote];
    updatePayment.run([...decision, now, call_id]);
    if (state !== row.state) effects.note({ kind: "paymentDecided", payment: changed });
    const isYoung = row.state === "intent" && now - row.created_at < YOUNG_MS;
    // One by use has no held JobCall to count.
    if (row.ceiling === null && (!isYoung || state === "unresolved")) undecided.forget();
    return toPaymentRecord(changed);
  }

  /** Queues the JobCall, held or kept. @returns undefined if it is gone */
  function settle(row: PaymentRow, values: Partial<PaymentRow>, now: number): PaymentRecord | undefined {
    if (row.state !== "failed") {
      if (row.ceiling === null) releaseHeldCall.run([now, row.call_id]);
      return change(row, { ...values, state: "settled" }, now);
    }
    // What a failed payment by use moved may have paid for something else.
    if (row.ceiling !== null || !watches.end(row.call_id)) return undefined;
    jobCalls.requeueKept(row, now);
    // Under its identifier, and for its quote, another payment may have been made since.
    const payment_id = payments.findByIdentifier(row) === undefined ? row.payment_id : null;
    const record = change(row, { ...values, state: "settled", payment_id, redeems_quote: 0 }, now);
    const { callerNonce, callId } = record;
    if (callerNonce !== undefined && !nonces.isUsed(callerNonce, now)) nonces.use(callerNonce, callId, now);
    return record;
  }

  function fail(row: PaymentRow, values: Partial<PaymentRow>, now: number): PaymentRecord {
    const record = change(row, { ...values, state: "failed" }, now);
    effects.watch(row, now);
    // One by use has no JobCall to give back: it ran.
    if (row.ceiling !== null) return record;
    jobCalls.removeHeld(record.callId);
    if (record.callerNonce !== undefined) nonces.free(record.callerNonce, record.callId);
    return record;
  }

  return {
    beginPayment(now, intent, call, limits) {
      const { callerNonce } = intent;
      const known =
        payments.find(intent.key) ??
        payments.findByFingerprint(intent.fingerprint) ??
        payments.findByIdentifier({ payer: intent.key.payer, payment_id: intent.paymentId ?? null });
      const decision = beginDecision({
        intent,
        known: known && toPaymentRecord(known),
        isNonceUsed: callerNonce !== undefined && nonces.isUsed(callerNonce, now),
        isQuotePaid: intent.redeemsQuote === true && selectRedeemed.get([intent.receipt]) !== undefined,
        hasRoom: jobCalls.hasRoom(),
        undecided: {
          total: undecided.total,
          ofPayer:
            limits === undefined ? 0 : undecided.ofPayer(intent.key.payer, now, limits.maxOpenPerPayer),
        },
        openUnits:
          limits?.funds === undefined ? 0n : undecided.openUnits(intent.key, now - (limits.fundsAgeMs ?? 0)),
        limits,
        now,
      });
      if (decision.kind !== "begin") return decision;
      const callId = jobCalls.add(call, intent.ceiling === undefined ? "held" : "ready", now, intent);
      const row = toPaymentRow(intent, callId, now);
      insertPayment.run(PAYMENT_COLUMNS.map((column) => row[column]));
      if (callerNonce !== undefined) nonces.use(callerNonce, callId, now);
      return { kind: "begun", callId };
    },

    settlePayment(now, key, settlement, blockNumber, moved) {
      const row = payments.find(key);
      if (row === undefined) return { kind: "not_open" };
      const { call_id: callId, state } = row;
      if (state === "settled")
        return { kind: "settled", callId, changed: false, record: toPaymentRecord(row) };
      const amount = moved ?? row.amount;
      const values = { amount, settlement, block_number: blockNumber ?? null, reason: settledReason(row) };
      const record = canBecome("settled", state) ? settle(row, values, now) : undefined;
      return record === undefined ? { kind: "not_open" } : { kind: "settled", callId, changed: true, record };
    },

    failPayment(now, key, settlement, reason) {
      const row = payments.find(key);
      if (row === undefined || !canBecome("failed", row.state)) return { kind: "not_open" };
      return { kind: "failed", record: fail(row, { settlement, reason }, now) };
    },

    leavePaymentUnresolved(now, key, reason) {
      const row = payments.find(key);
      if (row === undefined || !canBecome("unresolved", row.state)) return undefined;
      return change(row, { state: "unresolved", reason }, now);
    },

    closePayment(now, key, closing) {
      const row = payments.find(key);
      if (row === undefined) return { kind: "not_open", record: undefined };
      const { as } = closing;
      const values = {
        settlement: closedSettlement(row, as),
        closed: JSON.stringify({ ...closing, at: now }),
      };
      const record = canClose(row, as, now) ? (as === "paid" ? settle : fail)(row, values, now) : undefined;
      if (record === undefined) return { kind: "not_open", record: toPaymentRecord(row) };
      effects.watch(row, now);
      return { kind: "closed", record };
    },

    contradictPayment(now, key, reason, settlement) {
      const row = payments.find(key);
      if (row === undefined || !watches.end(row.call_id)) return false;
      change(row, { reason, settlement: settlement ?? row.settlement }, row.updated_at);
      effects.note({ kind: "paymentContradicted", payment: row, at: now });
      return true;
    },

    endWatches(now) {
      const ended = watches.endOld(now);
      for (const callId of ended.kept) jobCalls.dropBody(callId);
      return ended.count === ENDED_AT_ONCE;
    },
  };
}

/** Looks payments up by their unique keys. */
export class PaymentFinder {
  readonly #byKey: Statement<PaymentRow>;
  readonly #byFingerprint: Statement<PaymentRow>;
  readonly #byIdentifier: Statement<PaymentRow>;

  constructor(database: Database) {
    this.#byKey = database.prepare(
      "SELECT * FROM payments WHERE network = ? AND asset = ? AND payer = ? AND nonce = ?",
    );
    this.#byFingerprint = database.prepare("SELECT * FROM payments WHERE fingerprint = ?");
    this.#byIdentifier = database.prepare(
      `SELECT * FROM payments INDEXED BY payments_by_identifier
        WHERE payer = ? AND payment_id = ? AND state <> 'failed'`,
    );
  }

  find({ network, asset, payer, nonce }: PaymentKey): PaymentRow | undefined {
    return this.#byKey.get([network, asset, payer, nonce]);
  }

  findByFingerprint(fingerprint: string): PaymentRow | undefined {
    return this.#byFingerprint.get([fingerprint]);
  }

  /** Finds the payment under an identifier that did not fail. */
  findByIdentifier({ payer, payment_id }: Pick<PaymentRow, "payer" | "payment_id">): PaymentRow | undefined {
    return payment_id === null ? undefined : this.#byIdentifier.get([payer, payment_id]);
  }
}

const ENDED_AT_ONCE = 500;

const beyondMost = (isByUse: 0 | 1) => `SELECT call_id FROM watched_payments WHERE is_by_use = ${isByUse}
           ORDER BY since DESC LIMIT ${ENDED_AT_ONCE} OFFSET ${MAX_WATCHED}`;

/** Decided payments that the chain may still contradict. */
class Watches {
  readonly #delete: Statement<unknown>;
  readonly #selectOld: Statement<{ call_id: number; keeps_body: 0 | 1 }>;

  constructor(database: Database) {
    this.#delete = database.prepare("DELETE FROM watched_payments WHERE call_id = ?");
    this.#selectOld = database.prepare(
      `SELECT call_id, state = 'failed' AND ceiling IS NULL AS keeps_body FROM (
         SELECT call_id FROM watched_payments WHERE since <= ?
         UNION SELECT call_id FROM (${beyondMost(0)}) UNION SELECT call_id FROM (${beyondMost(1)}))
         JOIN payments USING (call_id) LIMIT ${ENDED_AT_ONCE}`,
    );
  }

  /** @returns true if the payment was watched */
  end(callId: number): boolean {
    return this.#delete.run([callId]).changes > 0;
  }

  /** Ends a bounded number of watches that are too old or too many. @returns those that keep a JobCall, and their number */
  endOld(now: number): { readonly count: number; readonly kept: number[] } {
    const old = this.#selectOld.all([now - WATCHED_MS]);
    for (const { call_id } of old) this.end(call_id);
    return {
      count: old.length,
      kept: old.flatMap(({ call_id, keeps_body }) => (keeps_body === 1 ? call_id : [])),
    };
  }
}

/** Expired nonces that are deleted whenever one is added: more than one, so that they never pile up. */
const NONCES_FORGOTTEN_AT_ONCE = 10;

/** Nonces of delegated callers, each used up by one payment until it expires. */
export class CallerNonces {
  readonly #select: Statement<unknown>;
  readonly #upsert: Statement<unknown>;
  readonly #delete: Statement<unknown>;
  readonly #forgetExpired: Statement<unknown>;

  constructor(database: Database) {
    const key = "caller = ? AND service_id = ? AND job_index = ? AND nonce = ?";
    this.#select = database.prepare(
      `SELECT 1 FROM caller_nonces WHERE ${key} AND expires_at_secs * 1000 > ?`,
    );
    this.#upsert = database.prepare("INSERT OR REPLACE INTO caller_nonces VALUES (?, ?, ?, ?, ?, ?)");
    this.#delete = database.prepare(`DELETE FROM caller_nonces WHERE ${key} AND call_id = ?`);
    this.#forgetExpired = database.prepare(
      `DELETE FROM caller_nonces WHERE rowid IN
         (SELECT rowid FROM caller_nonces WHERE expires_at_secs <= ? LIMIT ${NONCES_FORGOTTEN_AT_ONCE})`,
    );
  }

  isUsed(nonce: CallerNonce, now: number): boolean {
    return this.#select.get([...keyOf(nonce), now]) !== undefined;
  }

  /** Remembers a nonce until it expires; an expired entry is replaced. */
  use(nonce: CallerNonce, callId: number, now: number): void {
    this.#forgetExpired.run([Math.floor(now / 1000)]);
    this.#upsert.run([...keyOf(nonce), nonce.expiresAt, callId]);
  }

  /** Frees a nonce, unless another payment has used it up since. */
  free(nonce: CallerNonce, callId: number): void {
    this.#delete.run([...keyOf(nonce), callId]);
  }
}

function keyOf({ caller, serviceId, jobIndex, nonce }: CallerNonce): (string | number)[] {
  return [caller, String(serviceId), jobIndex, nonce];
}
