import type { CallFilter } from "./contract/operator-lists.ts";

/** An index from which a part of a page is read. */
export interface Source {
  /** Table with its alias, `call` or `payment`. */
  readonly table: string;
  readonly alias: "call" | "payment";
  readonly index?: string;
  readonly keys?: readonly (readonly [column: string, value: string])[];
  /** SQL condition of a partial index. */
  readonly where?: string;
  /** Filters that the index covers. Other filters are checked entry by entry. */
  readonly selects: readonly (keyof CallFilter)[];
  /** True for an index that is not in the order of IDs. It is read completely. */
  readonly isUnordered?: boolean;
}

/** SQL conditions on the outcomes of calls, as the partial indexes have them. */
export const END_CONDITIONS = {
  failed: "call.state = 'failed' AND call.status IS NOT NULL",
  dropped: "call.state = 'failed' AND call.status IS NULL",
};
const WAITING = "call.state IN ('leased', 'delayed')";

/** Payments whose calls are looked up. An unknown number of them has no call in the table. */
const PAYMENTS = { table: "payments AS payment", alias: "payment", selects: [] } as const;

/** Returns the indexes of unfinished calls, and of payments, from which the calls of a filter are read. */
export function openSources({ state, origin, payer, serviceId, jobId, reason }: CallFilter): Source[] {
  const calls = { table: "job_calls AS call", alias: "call", selects: ["state"] } as const;
  if (payer !== undefined) return [paidBy(payer)];
  const waiting: Source = {
    ...calls,
    index: "job_calls_waiting",
    where: WAITING,
    selects: [],
    isUnordered: true,
  };
  switch (state) {
    case "held": {
      const forPayments = ["intent", "unresolved"].map(
        (value): Source => ({
          ...PAYMENTS,
          index: "payments_by_state",
          keys: [["payment.state", value]],
        }),
      );
      const where = "call.state = 'held' AND call.order_key IS NOT NULL";
      return [...forPayments, { ...calls, index: "job_calls_ordered", where, isUnordered: true }];
    }
    case "ready": {
      const ready = { ...calls, where: "call.state = 'ready'" };
      if (jobId === undefined) return [{ ...ready, index: "job_calls_ready" }, waiting];
      const ofJob: Source = {
        ...ready,
        index: "job_calls_ready_by_job",
        keys: [["call.job_id", String(jobId)]],
        selects: ["state", "jobId"],
      };
      return [ofJob, waiting];
    }
    case "leased":
      return [waiting];
    case "dead": {
      const dead = { ...calls, where: "call.state = 'dead'" };
      if (origin === undefined || serviceId === undefined || jobId === undefined || reason === undefined)
        return [{ ...dead, index: "job_calls_dead" }];
      const ofGroup: Source = {
        ...dead,
        index: "job_calls_dead_groups",
        keys: [["call.dead_group", `${origin} ${serviceId} ${jobId} ${reason}`]],
        selects: ["state", "origin", "serviceId", "jobId", "reason"],
      };
      return [ofGroup];
    }
    case "done":
    case "failed":
    case "dropped":
    case undefined:
      return [{ ...calls, selects: [] }];
  }
}

/** Returns the index of finished calls, or of payments, from which the calls of a filter are read. */
export function finishedSource({ state, origin, payer, jobId }: CallFilter): Source {
  const calls = { table: "finished_calls AS call", alias: "call" } as const;
  if (payer !== undefined) return paidBy(payer);
  if (state === "failed" || state === "dropped") {
    const where = END_CONDITIONS[state];
    return { ...calls, index: `finished_calls_${state}`, where, selects: ["state"] };
  }
  if (jobId !== undefined) {
    const keys = [["call.job_id", String(jobId)]] as const;
    return { ...calls, index: "finished_calls_by_job", keys, selects: ["jobId"] };
  }
  // A finished call can have a payment in any state, because some are charged after they ran.
  if (origin === "x402") return PAYMENTS;
  return { ...calls, selects: [] };
}

const paidBy = (payer: string): Source => ({
  ...PAYMENTS,
  index: "payments_by_payer",
  keys: [["payment.payer", payer]],
  selects: ["payer"],
});

/**
 * Leaves out the filters that the source covers. With a second condition on a key, Postgres would take the key for a
 * constant and read another index.
 */
export function leftOf({ selects }: Source, { limit: _limit, ...filter }: CallFilter): Partial<CallFilter> {
  const given = Object.entries(filter).filter(
    ([name, value]) =>
      value !== undefined && !RANGE.includes(name) && !selects.includes(name as keyof CallFilter),
  );
  return Object.fromEntries(given);
}

/** Filters that every source covers. */
const RANGE: readonly string[] = ["before", "since", "until"];

/** Returns true if all entries of a source match the filter. Some payments have no call in the table. */
export function isAll({ alias }: Source, left: Partial<CallFilter>): boolean {
  return alias === "call" && Object.keys(left).length === 0;
}
