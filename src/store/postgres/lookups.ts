import { GatewayError } from "../../core/errors.ts";
import { within } from "../../core/waiting.ts";
import { type AdoptedPaymentRow, toAdoptedPayment } from "../adopted-payment-row.ts";
import {
  type DeadLetterRow,
  PAYMENT_OF_CALL,
  type PaidCallRow,
  toCallState,
  toDeadLetter,
} from "../call-row.ts";
import { CALLBACK_COLUMN_LIST, type CallbackRow, toCallback } from "../callback-row.ts";
import type { SharedLeases } from "../contract/work-queue.ts";
import { toTotals } from "../counted-rows.ts";
import { ListQueries } from "../list-queries.ts";
import { toMovement } from "../movement-row.ts";
import type { Input, Outcome, ReadName } from "../operations.ts";
import {
  findCallDetails,
  type Lookup,
  listCalls,
  listDeadLetterGroups,
  listPayments,
} from "../operator-lists.ts";
import { type PaymentRow, toPaymentRecord } from "../payment-row.ts";
import { REFUND_COLUMN_LIST, type RefundRow, toRefund } from "../refund-row.ts";
import { JUST_DUE_MS, type LeaseColumns, leaseStanding } from "../rules/leases.ts";
import { firstSummedHour } from "../rules/payments.ts";
import { TRANSACTION_COLUMN_LIST, type TransactionRow, toTransactionRecord } from "../transaction-row.ts";
import type { ConnectionPool } from "./connection/connection-pool.ts";
import { isRefusal } from "./connection/database-errors.ts";
import { listRefusedPayments } from "./refused-payments.ts";
import { COUNT_ROWS, SUM_REVENUE } from "./report-statements.ts";
import {
  FIND_PAYMENTS_BY_FINGERPRINT,
  FIND_PAYMENTS_BY_IDENTIFIER,
  FIND_TRANSACTIONS,
  identifierColumns,
  keyColumns,
  LIST_MOVEMENTS,
  PAYMENT_COLUMN_LIST,
  referenceColumns,
} from "./shared-statements.ts";
import { LIST_DIALECT, NOW, type Statement, sqlOf, statement } from "./sql.ts";

const FIND_PAYMENT = statement<PaymentRow>(
  "find_payment",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce)`,
);
const LIST_UNDECIDED = statement<PaymentRow & { age_ms: number }>(
  "list_undecided",
  `SELECT ${PAYMENT_COLUMN_LIST}, ${NOW} - created_at AS age_ms FROM jobgate.payments
    WHERE state = $2 AND call_id > $3 ORDER BY call_id LIMIT $4`,
);
const LIST_ENDING_AUTHORIZATIONS = statement<{ call_id: number }>(
  "list_ending_authorizations",
  `SELECT call_id FROM jobgate.payments
    WHERE state = 'authorized' AND valid_before_secs < $1 ORDER BY valid_before_secs LIMIT $2`,
);
const FIND_CEILINGS = statement<{ is_known: boolean; ceiling: string | null }>(
  "find_ceilings",
  `SELECT job_calls.call_id IS NOT NULL AS is_known, ceiling FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (call_id, place)
     LEFT JOIN jobgate.job_calls ON job_calls.call_id = asked.call_id ORDER BY place`,
);
const LIST_WATCHED = statement<PaymentRow & { age_ms: number }>(
  "list_watched",
  `SELECT ${PAYMENT_COLUMN_LIST}, ${NOW} - created_at AS age_ms
     FROM jobgate.watched_payments JOIN jobgate.payments USING (call_id)
    WHERE watched_payments.call_id > $2 ORDER BY watched_payments.call_id LIMIT $3`,
);
const FIND_USED_NONCE = statement(
  "find_used_nonce",
  `SELECT FROM jobgate.caller_nonces WHERE caller = $2 AND service_id = $3 AND job_index = $4 AND nonce = $5
      AND expires_at_secs * 1000 > ${NOW}`,
);
const LIST_OPEN_TRANSACTIONS = statement<TransactionRow>(
  "list_open_transactions",
  `SELECT ${TRANSACTION_COLUMN_LIST} FROM jobgate.settler_transactions
    WHERE network = $1 AND state = $2 AND state IN ('queued', 'sent') AND id > $3 ORDER BY id LIMIT $4`,
);
const LIST_LAST_NONCES = statement<{ account: string; nonce: number }>(
  "list_last_nonces",
  "SELECT account, last_nonce AS nonce FROM jobgate.settler_accounts WHERE network = $1 ORDER BY account",
);
const FIND_DEAD_LETTER = statement<DeadLetterRow & { encoded: Buffer }>(
  "find_dead_letter",
  `SELECT call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at, encoded
     FROM jobgate.job_calls JOIN jobgate.job_bodies USING (call_id)
    WHERE call_id = $1 AND state = 'dead'`,
);
const FIND_CALL = statement<PaidCallRow & { now: number }>(
  "find_call",
  `SELECT payments.network, payments.asset, payments.payer, nonce, job_calls.state, visible_at, attempts AS attempt,
          progress_percent, progress_text, dead_reason AS reason, enqueued_at, dead_at AS finished_at, ${PAYMENT_OF_CALL}, ${NOW} AS now
     FROM jobgate.payments JOIN jobgate.job_calls ON job_calls.call_id = payments.call_id
     LEFT JOIN jobgate.refunds ON refunds.call_id = payments.call_id WHERE payments.call_id = $2
   UNION ALL
   SELECT payments.network, payments.asset, payments.payer, nonce, results.state, NULL, results.attempt, NULL, NULL, results.reason,
          enqueued_at, finished_at, ${PAYMENT_OF_CALL}, ${NOW}
     FROM jobgate.payments JOIN jobgate.results ON results.call_id = payments.call_id
     LEFT JOIN jobgate.refunds ON refunds.call_id = payments.call_id WHERE payments.call_id = $2
   UNION ALL
   SELECT payments.network, payments.asset, payments.payer, nonce, 'expired', NULL, 0, NULL, NULL, NULL,
          payments.created_at, NULL, ${PAYMENT_OF_CALL}, ${NOW}
     FROM jobgate.payments LEFT JOIN jobgate.refunds ON refunds.call_id = payments.call_id
    WHERE payments.call_id = $2 AND payments.state IN ('settled', 'released')
      AND NOT EXISTS (SELECT FROM jobgate.job_calls WHERE call_id = $2)
      AND NOT EXISTS (SELECT FROM jobgate.results WHERE call_id = $2)`,
);
const FIND_RESULT = statement<{ body: Buffer; content_type: string }>(
  "find_result",
  "SELECT body, content_type FROM jobgate.results WHERE call_id = $1 AND body IS NOT NULL",
);
const FIND_ADOPTED_PAYMENTS = statement<AdoptedPaymentRow>(
  "find_adopted_payments",
  "SELECT payer, nonce, network, asset, adopted FROM jobgate.adopted_payments WHERE payer = $1 AND nonce = $2",
);
const LIST_OPEN_REFUNDS = statement<RefundRow>(
  "list_open_refunds",
  `SELECT ${REFUND_COLUMN_LIST} FROM jobgate.refunds
    WHERE network = $1 AND state = $2 AND state IN ('owed', 'sending') AND (state = 'sending' OR is_approved = 1)
      AND call_id > $3 ORDER BY call_id LIMIT $4`,
);
const LIST_REFUNDS = statement<RefundRow>(
  "list_refunds",
  `SELECT ${REFUND_COLUMN_LIST} FROM jobgate.refunds
    WHERE state <> 'cancelled' AND call_id < $1 ORDER BY call_id DESC LIMIT $2`,
);
const LIST_REFUNDS_IN_STATE = statement<RefundRow>(
  "list_refunds_in_state",
  `SELECT ${REFUND_COLUMN_LIST} FROM jobgate.refunds
    WHERE state = $3 AND call_id < $1 ORDER BY call_id DESC LIMIT $2`,
);
// Jumps from one host to the next, however many callbacks each has.
const LIST_DUE_CALLBACKS = statement<CallbackRow>(
  "list_due_callbacks",
  `WITH RECURSIVE next (host) AS (
     SELECT (SELECT min(host) FROM jobgate.callbacks WHERE state = 'pending' AND host > $2)
     UNION ALL
     SELECT (SELECT min(host) FROM jobgate.callbacks WHERE state = 'pending' AND host > next.host)
       FROM next WHERE next.host IS NOT NULL),
   due (host) AS (
     SELECT host FROM next WHERE EXISTS (
       SELECT FROM jobgate.callbacks WHERE callbacks.host = next.host AND state = 'pending' AND due_at <= ${NOW}) LIMIT $3)
   SELECT callbacks.* FROM due CROSS JOIN LATERAL (
     SELECT ${CALLBACK_COLUMN_LIST} FROM jobgate.callbacks
      WHERE callbacks.host = due.host AND state = 'pending' AND due_at <= ${NOW} ORDER BY due_at, id LIMIT $4) AS callbacks
    ORDER BY callbacks.host, due_at, id`,
);
const FIND_OFFERS = statement<{ id: string; offer: string; valid_until: number }>(
  "find_offers",
  `SELECT id, offer, valid_until FROM jobgate.offers
    WHERE service_id = $2 AND job_index = $3 AND valid_until > ${NOW} ORDER BY valid_until DESC, id`,
);
const FIND_QUOTE = statement<{ digest: string; quote: string; expires_at: number; is_paid: boolean }>(
  "find_quote",
  `SELECT digest, quote, expires_at,
          EXISTS (SELECT FROM jobgate.payments
                   WHERE receipt = digest AND redeems_quote = 1 AND state <> 'failed') AS is_paid
     FROM jobgate.quotes WHERE digest = $2 AND expires_at > ${NOW}`,
);
const NEXT_DUE = statement<{ due_in: number | null }>(
  "next_due",
  `SELECT min(visible_at) - ${NOW} AS due_in FROM jobgate.job_calls
    WHERE state IN ('leased', 'delayed') AND (state = 'leased' OR subscriber IS NULL OR visible_at > ${NOW} - ${JUST_DUE_MS})`,
);
const FIND_LEASES = statement<LeaseRow>(
  "find_leases",
  `SELECT call_id, state, lease_token, visible_at, ${NOW} AS now FROM jobgate.job_calls
    WHERE call_id = ANY ($2::bigint[])`,
);
interface LeaseRow extends LeaseColumns {
  readonly call_id: number;
  readonly now: number;
}

type LookupTable = { readonly [Name in ReadName]: (...input: Input<Name>) => Promise<Outcome<Name>> };

/**
 * Operations that only read, on connections of their own, so that no lookup delays a write.
 * All reject with `GatewayError("store_unavailable")` when the database cannot be asked.
 */
export function createLookups(options: {
  readonly readers: ConnectionPool;
  /** For the operator's lookups. */
  readonly operatorReaders: ConnectionPool;
  /** Replaces the database's clock in tests. */
  readonly clock: (() => number) | undefined;
  /** Wait of a client for its lookup. */
  readonly callerMs: number;
}): LookupTable & { readonly lookAtLeases: SharedLeases["look"] } {
  const { readers, operatorReaders, clock, callerMs } = options;
  const now = () => clock?.() ?? null;

  function askOnce<Row>(
    asked: Statement<Row>,
    values: readonly unknown[],
    pool: ConnectionPool,
  ): Promise<Row[]> {
    return pool.use((client) => sqlOf(client).run(asked, values));
  }

  async function ask<Row>(asked: Statement<Row>, values: readonly unknown[], pool = readers): Promise<Row[]> {
    try {
      // The connection may have been broken for a while without anyone having used it.
      const rows = askOnce(asked, values, pool).catch((error) =>
        isRefusal(error) ? Promise.reject(error) : askOnce(asked, values, pool),
      );
      if (pool !== readers) return await rows;
      const inTime = await within(callerMs, rows);
      if (inTime === undefined) throw new Error(`Postgres has not answered for ${callerMs / 1000} s`);
      return inTime;
    } catch (cause) {
      throw new GatewayError("store_unavailable", "The store could not be asked; nothing was changed.", {
        cause,
      });
    }
  }

  const queries = new ListQueries(LIST_DIALECT, now);

  /** Runs a lookup of several queries. */
  async function lookUp<Result>(lookup: Lookup<Result>): Promise<Result> {
    let step = lookup.next([]);
    while (!step.done) {
      const { sql, values } = step.value;
      // Without a name it is planned for its values: a common job needs another plan than a rare one.
      step = lookup.next(await ask({ name: "", text: sql }, values, operatorReaders));
    }
    return step.value;
  }

  async function askForOne<Row>(asked: Statement<Row>, values: readonly unknown[]): Promise<Row | undefined> {
    return (await ask(asked, values))[0];
  }

  return {
    async totals() {
      const [row] = await ask(COUNT_ROWS, [now()], operatorReaders);
      if (row === undefined) throw new Error("Postgres counted nothing");
      return toTotals(row.counted);
    },
    async revenue({ since, bucketMs }) {
      const values = [since, bucketMs, firstSummedHour({ since, bucketMs })];
      const rows = await ask(SUM_REVENUE, values, operatorReaders);
      return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
    },

    async findPayment(key) {
      const row = await askForOne(FIND_PAYMENT, keyColumns([key]));
      return row && toPaymentRecord(row);
    },
    async findPaymentByFingerprint(fingerprint) {
      const row = await askForOne(FIND_PAYMENTS_BY_FINGERPRINT, [[fingerprint]]);
      return row && toPaymentRecord(row);
    },
    async findPaymentByIdentifier(identifier) {
      const row = await askForOne(FIND_PAYMENTS_BY_IDENTIFIER, identifierColumns([identifier]));
      return row && toPaymentRecord(row);
    },
    async isCallerNonceUsed({ caller, serviceId, jobIndex, nonce }) {
      const key = [caller.toLowerCase(), String(serviceId), jobIndex, nonce];
      return (await ask(FIND_USED_NONCE, [now(), ...key])).length > 0;
    },
    async listUndecided({ state, limit, after = 0 }) {
      const rows =
        state === "watched"
          ? await ask(LIST_WATCHED, [now(), after, limit])
          : await ask(LIST_UNDECIDED, [now(), state, after, limit]);
      return rows.map((row) => ({ ...toPaymentRecord(row), ageMs: row.age_ms }));
    },

    listEndingAuthorizations: async (beforeSecs, limit) =>
      (await ask(LIST_ENDING_AUTHORIZATIONS, [beforeSecs, limit])).map(({ call_id }) => call_id),

    async findTransactions(network, references) {
      const asked = references.map((reference) => ({ network, reference }));
      return (await ask(FIND_TRANSACTIONS, referenceColumns(asked))).map(toTransactionRecord);
    },
    async listOpenTransactions(network, { state, limit, after = 0 }) {
      const [rows, lastNonces] = await Promise.all([
        ask(LIST_OPEN_TRANSACTIONS, [network, state, after, limit]),
        ask(LIST_LAST_NONCES, [network]),
      ]);
      return { transactions: rows.map(toTransactionRecord), lastNonces };
    },

    findAdoptedPayments: async ({ payer, nonce }) =>
      (await ask(FIND_ADOPTED_PAYMENTS, [payer, nonce])).map(toAdoptedPayment),
    listRefusedPayments: (filter) =>
      listRefusedPayments((asked, values = []) => ask(asked, values, operatorReaders), now(), filter),
    listOpenRefunds: async (network, { state, limit, after = 0 }) =>
      (await ask(LIST_OPEN_REFUNDS, [network, state, after, limit])).flatMap((row) => toRefund(row) ?? []),
    async listRefunds({ state, limit, before = Number.MAX_SAFE_INTEGER }) {
      const rows =
        state === undefined
          ? await ask(LIST_REFUNDS, [before, limit], operatorReaders)
          : await ask(LIST_REFUNDS_IN_STATE, [before, limit, state], operatorReaders);
      return rows.flatMap((row) => toRefund(row) ?? []);
    },

    listMovements: async ({ after, until, limit }) =>
      (await ask(LIST_MOVEMENTS, [after.at, after.id, until, limit], operatorReaders)).map(toMovement),
    listDueCallbacks: async ({ hosts, perHost, after }) =>
      (await ask(LIST_DUE_CALLBACKS, [now(), after, hosts, perHost])).map(toCallback),
    async listCallbacks({ state = null, callId = null, limit, before = Number.MAX_SAFE_INTEGER }) {
      const text = `SELECT ${CALLBACK_COLUMN_LIST} FROM jobgate.callbacks
        WHERE id < $1 AND ($3::text IS NULL OR state = $3) AND ($4::bigint IS NULL OR call_id = $4) ORDER BY id DESC LIMIT $2`;
      // Without a name it is planned for its values.
      const asked: Statement<CallbackRow> = { name: "", text };
      return (await ask(asked, [before, limit, state, callId], operatorReaders)).map(toCallback);
    },

    async lookAtLeases(leases) {
      const rows = await ask(FIND_LEASES, [now(), leases.map(({ callId }) => callId)]);
      const byCallId = new Map(rows.map((row) => [row.call_id, row]));
      return leases.map((lease) => {
        const row = byCallId.get(lease.callId);
        return leaseStanding(row, lease, row?.now ?? 0);
      });
    },
    ceilings: async (callIds) =>
      (await ask(FIND_CEILINGS, [callIds])).map(({ is_known, ceiling }) => (is_known ? ceiling : undefined)),
    nextDueMs: async () => (await askForOne(NEXT_DUE, [now()]))?.due_in ?? undefined,

    listCalls: (filter) => lookUp(listCalls(queries, filter)),
    findCallDetails: (callId) => lookUp(findCallDetails(queries, callId)),
    listPayments: (filter) => lookUp(listPayments(queries, filter)),
    listDeadLetterGroups: (limit) => lookUp(listDeadLetterGroups(queries, limit)),
    async findDeadLetter(callId) {
      const row = (await ask(FIND_DEAD_LETTER, [callId], operatorReaders))[0];
      return row && { ...toDeadLetter(row), encoded: row.encoded };
    },

    async findCall(callId) {
      const row = await askForOne(FIND_CALL, [now(), callId]);
      return row && toCallState(callId, row, row.now);
    },
    async findResult(callId) {
      const row = await askForOne(FIND_RESULT, [callId]);
      return row && { body: row.body, contentType: row.content_type };
    },

    async findOffers(job) {
      const rows = await ask(FIND_OFFERS, [now(), String(job.serviceId), job.jobIndex]);
      return rows.map(({ id, offer, valid_until }) => ({ id, job, offer, validUntil: valid_until }));
    },
    async findQuote(digest) {
      const row = await askForOne(FIND_QUOTE, [now(), digest]);
      return row && { digest, quote: row.quote, expiresAt: row.expires_at, isPaid: row.is_paid };
    },
  };
}
