import type { CallerNonce, PaymentKey, PaymentRecord } from "../../../core/payment.ts";
import { YOUNG_MS } from "../../contract/payment-journal.ts";
import { PAYMENT_COLUMNS, type PaymentRow, toPaymentRecord, toPaymentRow } from "../../payment-row.ts";
import { beginDecision, canBecome } from "../../rules/payments.ts";
import type { Database, Statement } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { JobCalls } from "./job-calls.ts";
import type { Undecided } from "./undecided.ts";

export function paymentOperations(
  database: Database,
  jobCalls: JobCalls,
  undecided: Undecided,
): OperationTable<"beginPayment" | "settlePayment" | "failPayment" | "leavePaymentUnresolved"> {
  const payments = new PaymentFinder(database);
  const nonces = new CallerNonces(database);
  const selectRedeemed = database.prepare(
    "SELECT 1 FROM payments WHERE receipt = ? AND redeems_quote = 1 AND state <> 'failed'",
  );
  const insertPayment = database.prepare(
    `INSERT INTO payments (${PAYMENT_COLUMNS.join(", ")}) VALUES (${PAYMENT_COLUMNS.map(() => "?").join(", ")})`,
  );
  const updatePayment = database.prepare(
    "UPDATE payments SET state = ?, settlement = ?, reason = ?, updated_at = ? WHERE call_id = ?",
  );
  // The client waits for its job from here on, so this is when it was enqueued.
  const releaseHeldCall = database.prepare(
    "UPDATE job_calls SET state = 'ready', enqueued_at = ? WHERE call_id = ? AND state = 'held'",
  );

  /** @returns the payment as it is now */
  function change(
    row: PaymentRow,
    values: Pick<PaymentRow, "state" | "settlement" | "reason" | "updated_at">,
  ): PaymentRecord {
    const { state, settlement, reason, updated_at } = values;
    updatePayment.run([state, settlement, reason, updated_at, row.call_id]);
    const isYoung = row.state === "intent" && updated_at - row.created_at < YOUNG_MS;
    if (!isYoung || state === "unresolved") undecided.forget();
    return toPaymentRecord({ ...row, ...values });
  }

  return {
    beginPayment(now, intent, call, limits) {
      const { callerNonce } = intent;
      const known = payments.find(intent.key) ?? payments.findByFingerprint(intent.fingerprint);
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
        limits,
        now,
      });
      if (decision.kind !== "begin") return decision;
      const callId = jobCalls.insert(call, "held", now);
      const row = toPaymentRow(intent, callId, now);
      insertPayment.run(PAYMENT_COLUMNS.map((column) => row[column]));
      if (callerNonce !== undefined) nonces.use(callerNonce, callId, now);
      return { kind: "begun", callId };
    },

    settlePayment(now, key, settlement) {
      const row = payments.find(key);
      if (row === undefined) return { kind: "not_open" };
      const { call_id: callId, state } = row;
      if (state === "settled")
        return { kind: "settled", callId, changed: false, record: toPaymentRecord(row) };
      if (!canBecome("settled", state)) return { kind: "not_open" };
      const record = change(row, { state: "settled", settlement, reason: null, updated_at: now });
      releaseHeldCall.run([now, callId]);
      return { kind: "settled", callId, changed: true, record };
    },

    failPayment(now, key, settlement, reason) {
      const row = payments.find(key);
      if (row === undefined || !canBecome("failed", row.state)) return { kind: "not_open" };
      const record = change(row, { state: "failed", settlement, reason, updated_at: now });
      jobCalls.removeHeld(record.callId);
      if (record.callerNonce !== undefined) nonces.free(record.callerNonce, record.callId);
      return { kind: "failed", record };
    },

    leavePaymentUnresolved(now, key, reason) {
      const row = payments.find(key);
      if (row === undefined || !canBecome("unresolved", row.state)) return undefined;
      return change(row, { state: "unresolved", settlement: row.settlement, reason, updated_at: now });
    },
  };
}

/** Looks payments up by their two unique keys. */
export class PaymentFinder {
  readonly #byKey: Statement<PaymentRow>;
  readonly #byFingerprint: Statement<PaymentRow>;

  constructor(database: Database) {
    this.#byKey = database.prepare(
      "SELECT * FROM payments WHERE network = ? AND asset = ? AND payer = ? AND nonce = ?",
    );
    this.#byFingerprint = database.prepare("SELECT * FROM payments WHERE fingerprint = ?");
  }

  find({ network, asset, payer, nonce }: PaymentKey): PaymentRow | undefined {
    return this.#byKey.get([network, asset, payer, nonce]);
  }

  findByFingerprint(fingerprint: string): PaymentRow | undefined {
    return this.#byFingerprint.get([fingerprint]);
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
