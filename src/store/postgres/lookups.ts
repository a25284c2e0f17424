import { GatewayError } from "../../core/errors.ts";
import {
  type CountedRows,
  type DeadLetterRow,
  type PaidCallRow,
  toCallState,
  toDeadLetter,
  toTotals,
} from "../call-row.ts";
import type { SharedLeases } from "../contract/work-queue.ts";
import type { Input, Outcome, ReadName } from "../operations.ts";
import { type PaymentRow, toPaymentRecord } from "../payment-row.ts";
import { JUST_DUE_MS, type LeaseColumns, leaseStanding } from "../rules/leases.ts";
import { firstSummedHour, HOUR_MS } from "../rules/payments.ts";
import type { Revenue } from "../store.ts";
import type { ConnectionPool } from "./connection/connection-pool.ts";
import { isRefusal } from "./connection/database-errors.ts";
import { FIND_PAYMENTS_BY_FINGERPRINT, keyColumns, PAYMENT_COLUMN_LIST } from "./payment-statements.ts";
import { NOW, type Statement, sqlOf, statement } from "./sql.ts";

const FIND_PAYMENT = statement<PaymentRow>(
  "find_payment",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
     JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS asked (network, asset, payer, nonce)
    USING (network, asset, payer, nonce)`,
);
const LIST_PAYMENTS = statement<PaymentRow>(
  "list_payments",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments WHERE call_id < $1 ORDER BY call_id DESC LIMIT $2`,
);
const LIST_PAYMENTS_IN_STATE = statement<PaymentRow>(
  "list_payments_in_state",
  `SELECT ${PAYMENT_COLUMN_LIST} FROM jobgate.payments
    WHERE call_id < $1 AND state = $3 ORDER BY call_id DESC LIMIT $2`,
);
const LIST_UNDECIDED = statement<PaymentRow & { age_ms: number }>(
  "list_undecided",
  `SELECT ${PAYMENT_COLUMN_LIST}, ${NOW} - created_at AS age_ms FROM jobgate.payments
    WHERE state = $2 AND call_id > $3 ORDER BY call_id LIMIT $4`,
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
const DEAD_LETTER_COLUMNS =
  "call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at";
const LIST_DEAD_LETTERS = statement<DeadLetterRow>(
  "list_dead_letters",
  `SELECT ${DEAD_LETTER_COLUMNS} FROM jobgate.job_calls
    WHERE state = 'dead' AND call_id < $1 ORDER BY call_id DESC LIMIT $2`,
);
const FIND_DEAD_LETTER = statement<DeadLetterRow & { encoded: Buffer }>(
  "find_dead_letter",
  `SELECT ${DEAD_LETTER_COLUMNS}, encoded FROM jobgate.job_calls JOIN jobgate.job_bodies USING (call_id)
    WHERE call_id = $1 AND state = 'dead'`,
);
const FIND_CALL = statement<PaidCallRow & { now: number }>(
  "find_call",
  `SELECT network, asset, payer, nonce, job_calls.state, visible_at, attempts AS attempt, progress_percent, progress_text,
          enqueued_at, dead_at AS finished_at, ${NOW} AS now
     FROM jobgate.payments JOIN jobgate.job_calls USING (call_id) WHERE call_id = $2
   UNION ALL
   SELECT network, asset, payer, nonce, results.state, NULL, attempt, NULL, NULL, enqueued_at, finished_at, ${NOW}
     FROM jobgate.payments JOIN jobgate.results USING (call_id) WHERE call_id = $2`,
);
const FIND_RESULT = statement<{ body: Buffer; content_type: string }>(
  "find_result",
  "SELECT body, content_type FROM jobgate.results WHERE call_id = $1 AND body IS NOT NULL",
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
// One statement, and so one snapshot, in which the journal balances.
const COUNT_ROWS = statement<{ counted: CountedRows }>(
  "count_rows",
  `SELECT json_build_object(
     'payments', (SELECT COALESCE(json_agg(t), '[]')
                    FROM (SELECT state, count(*) AS n FROM jobgate.payments GROUP BY state) AS t),
     'calls', (SELECT COALESCE(json_agg(t), '[]') FROM (
                 SELECT origin, CASE WHEN state = 'leased' AND visible_at <= ${NOW} THEN 'ready' ELSE state END AS state,
                        count(*) AS n FROM jobgate.job_calls GROUP BY 1, 2) AS t),
     'results', (SELECT COALESCE(json_agg(t), '[]')
                   FROM (SELECT state, count(*) AS n FROM jobgate.results GROUP BY state) AS t),
     'oldestReadyAt', (SELECT min(enqueued_at) FROM jobgate.job_calls
                        WHERE state IN ('ready', 'delayed') OR state = 'leased' AND visible_at <= ${NOW})) AS counted`,
);
const SUM_REVENUE = statement<Omit<Revenue, "amount"> & { amount: string }>(
  "sum_revenue",
  `WITH parts AS (
     SELECT hour * ${HOUR_MS} AS at, network, asset, symbol, amount, payments
       FROM jobgate.revenue_hours WHERE hour >= $3::bigint
     UNION ALL
     SELECT updated_at, network, asset, symbol, amount::numeric, 1
       FROM jobgate.payments WHERE state = 'settled' AND updated_at >= $1 AND updated_at < $3::bigint * ${HOUR_MS})
   SELECT at / $2::bigint * $2::bigint AS "from", network, asset, symbol, sum(amount)::text AS amount,
          sum(payments)::bigint AS payments
     FROM parts GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`,
);

const MAX_CALL_ID = Number.MAX_SAFE_INTEGER;

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
}): LookupTable & { readonly lookAtLeases: SharedLeases["look"] } {
  const { readers, operatorReaders, clock } = options;
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
      return await askOnce(asked, values, pool).catch((error) =>
        isRefusal(error) ? Promise.reject(error) : askOnce(asked, values, pool),
      );
    } catch (cause) {
      throw new GatewayError("store_unavailable", "The store could not be asked; nothing was changed.", {
        cause,
      });
    }
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
    async isCallerNonceUsed({ caller, serviceId, jobIndex, nonce }) {
      const key = [caller.toLowerCase(), String(serviceId), jobIndex, nonce];
      return (await ask(FIND_USED_NONCE, [now(), ...key])).length > 0;
    },
    async listPayments({ state, limit, before = MAX_CALL_ID }) {
      const rows =
        state === undefined
          ? await ask(LIST_PAYMENTS, [before, limit], operatorReaders)
          : await ask(LIST_PAYMENTS_IN_STATE, [before, limit, state], operatorReaders);
      return rows.map(toPaymentRecord);
    },
    async listUndecided({ state, limit, after = 0 }) {
      const rows =
        state === "watched"
          ? await ask(LIST_WATCHED, [now(), after, limit])
          : await ask(LIST_UNDECIDED, [now(), state, after, limit]);
      return rows.map((row) => ({ ...toPaymentRecord(row), ageMs: row.age_ms }));
    },

    async lookAtLeases(leases) {
      const rows = await ask(FIND_LEASES, [now(), leases.map(({ callId }) => callId)]);
      const byCallId = new Map(rows.map((row) => [row.call_id, row]));
      return leases.map((lease) => {
        const row = byCallId.get(lease.callId);
        return leaseStanding(row, lease, row?.now ?? 0);
      });
    },
    nextDueMs: async () => (await askForOne(NEXT_DUE, [now()]))?.due_in ?? undefined,

    listDeadLetters: async ({ limit, before = MAX_CALL_ID }) =>
      (await ask(LIST_DEAD_LETTERS, [before, limit], operatorReaders)).map(toDeadLetter),
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
