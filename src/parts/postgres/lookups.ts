import { GatewayError } from "../../core/errors.ts";
import { within } from "../../core/waiting.ts";
import type { SharedLeases } from "../../store/contract/work-queue.ts";
import type { ListDialect, Lookup } from "../../store/list-dialect.ts";
import { isForOperator, type LookupName, MODULE_LOOKUPS } from "../../store/modules/modules.ts";
import type { Input, Outcome, ReadName } from "../../store/operations.ts";
import { type LeaseColumns, leaseStanding } from "../../store/rules/leases.ts";
import type { ConnectionPool } from "./connection/connection-pool.ts";
import { isRefusal } from "./connection/database-errors.ts";
import { NOW, type Statement, sqlOf, statement, toStorable } from "./sql.ts";

const FIND_LEASES = statement<LeaseColumns & { readonly call_id: number; readonly now: number }>(
  "find_leases",
  `SELECT call_id, state, lease_token, visible_at, ${NOW} AS now FROM jobgate.job_calls
    WHERE call_id = ANY ($2::bigint[])`,
);

/** Operations that only read. */
export type Lookups = {
  readonly [Name in ReadName]: (...input: Input<Name>) => Promise<Outcome<Name>>;
} & { readonly lookAtLeases: SharedLeases["look"] };

/**
 * Operations that only read, on connections of their own, so that no lookup delays a write. All reject with
 * `GatewayError("store_unavailable")` when the database cannot be queried.
 */
export function createLookups(options: {
  readonly readers: ConnectionPool;
  /** For the operator's lookups. */
  readonly operatorReaders: ConnectionPool;
  readonly dialect: ListDialect;
  /** Replaces the database's clock in tests. */
  readonly clock: (() => number) | undefined;
  /**
   * Wait of a client for its lookup. The operator's lookups read more, and wait twice as long while the store is
   * writable.
   */
  readonly callerMs: number;
  readonly isWritable: () => boolean;
}): Lookups {
  const { readers, operatorReaders, dialect, clock, callerMs, isWritable } = options;
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
      // The connection may have been broken for a while without being used.
      const rows = askOnce(asked, values, pool).catch((error) =>
        isRefusal(error) ? Promise.reject(error) : askOnce(asked, values, pool),
      );
      const waitMs = pool === readers || isHung ? callerMs : 2 * callerMs;
      const inTime = await within(waitMs, rows);
      if (inTime === undefined) throw new Error(`Postgres has not answered for ${waitMs / 1000} s`);
      return inTime;
    } catch (cause) {
      throw new GatewayError("store_unavailable", "The store lookup failed; nothing was changed.", {
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
        lookUp(lookup({ dialect, now }, ...input), isForOperator(name) ? operatorReaders : readers),
    ]),
  ) as unknown as Pick<Lookups, LookupName>;

  return {
    ...ofModules,
    async lookAtLeases(leases) {
      const rows = await ask(FIND_LEASES, [now(), leases.map(({ callId }) => callId)]);
      const byCallId = new Map(rows.map((row) => [row.call_id, row]));
      return leases.map((lease) => {
        const row = byCallId.get(lease.callId);
        return leaseStanding(row, lease, row?.now ?? 0);
      });
    },
  };
}
