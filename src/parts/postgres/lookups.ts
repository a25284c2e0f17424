import { GatewayError } from "../../core/errors.ts";
import { within } from "../../core/waiting.ts";
import { toCallState, toDeadLetter } from "../../store/call-row.ts";
import type { SharedLeases } from "../../store/contract/work-queue.ts";
import { toTotals } from "../../store/counted-rows.ts";
import type { Lookup } from "../../store/list-dialect.ts";
import { type LookupName, MODULE_LOOKUPS } from "../../store/modules/modules.ts";
import { type Input, kindOf, type Outcome, type ReadName } from "../../store/operations.ts";
import { toPaymentRecord } from "../../store/payment-row.ts";
import { leaseStanding } from "../../store/rules/leases.ts";
import { firstSummedHour } from "../../store/rules/payments.ts";
import type { ConnectionPool } from "./connection/connection-pool.ts";
import { isRefusal } from "./connection/database-errors.ts";
import {
  FIND_CALL,
  FIND_CEILINGS,
  FIND_DEAD_LETTER,
  FIND_LEASES,
  FIND_PAYMENT,
  FIND_RESULT,
  LIST_ENDING_AUTHORIZATIONS,
  LIST_UNDECIDED,
  LIST_WATCHED,
  NEXT_DUE,
} from "./lookup-statements.ts";
import { COUNT_ROWS, SUM_REVENUE } from "./report-statements.ts";
import {
  FIND_PAYMENTS_BY_FINGERPRINT,
  FIND_PAYMENTS_BY_IDENTIFIER,
  identifierColumns,
  keyColumns,
} from "./shared-statements.ts";
import { LIST_DIALECT, type Statement, sqlOf, toStorable } from "./sql.ts";

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
  /** Wait of a client for its lookup. The operator's, which read more, wait twice as long while the store is writable. */
  readonly callerMs: number;
  readonly isWritable: () => boolean;
}): LookupTable & { readonly lookAtLeases: SharedLeases["look"] } {
  const { readers, operatorReaders, clock, callerMs, isWritable } = options;
  const now = () => clock?.() ?? null;

  function askOnce<Row>(
    asked: Statement<Row>,
    values: readonly unknown[],
    pool: ConnectionPool,
  ): Promise<Row[]> {
    return pool.use((client) => sqlOf(client).run(asked, values));
  }

  async function ask<Row>(asked: Statement<Row>, values: readonly unknown[], pool = readers): Promise<Row[]> {
    const isHung = pool !== readers && !isWritable();
    try {
      // While Postgres does not answer, one lookup waits for it. Further lookups would only lengthen the queue.
      if (isHung && pool.isBusy()) throw new Error("Postgres does not answer another lookup");
      // The connection may have been broken for a while without anyone having used it.
      const rows = askOnce(asked, values, pool).catch((error) =>
        isRefusal(error) ? Promise.reject(error) : askOnce(asked, values, pool),
      );
      const waitMs = pool === readers || isHung ? callerMs : 2 * callerMs;
      const inTime = await within(waitMs, rows);
      if (inTime === undefined) throw new Error(`Postgres has not answered for ${waitMs / 1000} s`);
      return inTime;
    } catch (cause) {
      throw new GatewayError("store_unavailable", "The store could not be asked; nothing was changed.", {
        cause,
      });
    }
  }

  /** Runs a lookup of a module. */
  async function lookUp(lookup: Lookup<unknown>, pool: ConnectionPool): Promise<unknown> {
    let step = lookup.next([]);
    while (!step.done) {
      const { name = "", sql, values } = step.value;
      step = lookup.next(await ask({ name, text: sql }, values.map(toStorable), pool));
    }
    return step.value;
  }

  const ofModules = Object.fromEntries(
    MODULE_LOOKUPS.map(([name, lookup]) => [
      name,
      (...input: readonly unknown[]) =>
        lookUp(
          lookup({ dialect: LIST_DIALECT, now }, ...input),
          kindOf(name).isForOperator === true ? operatorReaders : readers,
        ),
    ]),
  ) as unknown as Pick<LookupTable, LookupName>;

  async function askForOne<Row>(asked: Statement<Row>, values: readonly unknown[]): Promise<Row | undefined> {
    return (await ask(asked, values))[0];
  }

  return {
    ...ofModules,
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
    async listUndecided({ state, limit, after = 0 }) {
      const rows =
        state === "watched"
          ? await ask(LIST_WATCHED, [now(), after, limit])
          : await ask(LIST_UNDECIDED, [now(), state, after, limit]);
      return rows.map((row) => ({ ...toPaymentRecord(row), ageMs: row.age_ms }));
    },

    listEndingAuthorizations: async (beforeSecs, limit) =>
      (await ask(LIST_ENDING_AUTHORIZATIONS, [beforeSecs, limit])).map(({ call_id }) => call_id),

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
  };
}
