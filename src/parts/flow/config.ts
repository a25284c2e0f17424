import type { Config } from "../../config/config.ts";
import type { CallLimit, EndpointOfPart, EntryKeys } from "../../config/entry-keys.ts";
import type { Place } from "../../config/mistakes.ts";
import { whyWithheld } from "../../config/rules/forwarded-headers.ts";
import { proofHeaders } from "../../config/rules/webhooks.ts";
import { integer, oneOf, parsedText } from "../../config/value-types.ts";
import type { EndpointTable as CoreEndpointTable } from "../../config/webhooks.ts";
import { SHOWN } from "../../config/wrong-value.ts";
import type { CallRate, JobLimit } from "../../core/job-call.ts";
import { defined } from "../../core/objects.ts";
import { KEY_SOURCE_FORM, keyOf, parseKeySource } from "./key.ts";

interface LimitedTable {
  readonly concurrency?: number;
  readonly rate?: string;
}

interface EndpointTable extends LimitedTable, Pick<CoreEndpointTable, "auth" | "apiKeyHeader"> {
  readonly jobId?: bigint;
  readonly path?: string;
  readonly orderBy?: string;
  readonly onDead?: "continue" | "hold";
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };
const RATE = /^([1-9]\d{0,6})\/([smh])$/;

/** Parses `10/s`, `100/m` or `1000/h`. @returns undefined for any other text */
function parseRate(text: string): CallRate | undefined {
  const [, calls, unit = ""] = RATE.exec(text) ?? [];
  const perMs = UNITS[unit];
  return perMs === undefined ? undefined : { calls: Number(calls), perMs };
}

const limitKeys = {
  /** Most leased JobCalls at once, over all runners and replicas. */
  concurrency: integer(1, 100_000).optional(),
  /** Most JobCalls that runners receive in any second, minute or hour. */
  rate: parsedText(
    "a number and a time, such as 10/s, 100/m or 1000/h",
    (text) => (parseRate(text) === undefined ? undefined : text),
    SHOWN,
  ).optional(),
};

function limitOf({ concurrency, rate }: LimitedTable): CallLimit | undefined {
  if (concurrency === undefined && rate === undefined) return undefined;
  return defined({ concurrency, rate: rate === undefined ? undefined : parseRate(rate) });
}

interface AllTables {
  readonly jobs?: readonly ((LimitedTable & { readonly jobIndex?: number }) | undefined)[];
  readonly webhooks?: { readonly endpoints?: readonly (EndpointTable | undefined)[] };
}

/**
 * Reports a limit that differs from the limit of another entry with the job ID, because runners and limits tell JobCalls apart
 * only by job ID.
 */
function checkLimit(own: LimitedTable, jobId: bigint | undefined, place: Place, tables: AllTables): void {
  const { jobs = [], webhooks: { endpoints = [] } = {} } = tables;
  const all = [
    ...jobs.map((job, i) => ({ table: job, id: job?.jobIndex, name: `jobs[${i}]` })),
    ...endpoints.map((table, i) => ({ table, id: table?.jobId, name: `webhooks.endpoints[${i}]` })),
  ];
  for (const key of ["concurrency", "rate"] as const) {
    if (own[key] === undefined || place.at(key).isReported) continue;
    const other = all.find(
      ({ table, id }) =>
        id !== undefined && jobId !== undefined && BigInt(id) === jobId && table?.[key] !== own[key],
    );
    if (other !== undefined)
      place
        .at(key)
        .report(
          `is not the limit of ${other.name}, which has job ID ${jobId} as well; expected the same in both, because they share the limit`,
        );
  }
}

/** Keys of `[[jobs]]` that limit JobCalls. */
export const jobKeys: EntryKeys<"jobs"> = {
  list: "jobs",
  keys: limitKeys,
  alternative: "a concurrency",
  claim(job: LimitedTable & { readonly jobIndex?: number }, place, tables: AllTables) {
    const limit = limitOf(job);
    if (limit === undefined) return undefined;
    const check = () =>
      checkLimit(job, job.jobIndex === undefined ? undefined : BigInt(job.jobIndex), place, tables);
    return { keys: {}, check, complete: () => ({ limit }) };
  },
};

/** Returns the limits of a configuration, one for each job ID. */
export function limitsOf({ x402, webhooks }: Pick<Config, "x402" | "webhooks">): JobLimit[] {
  const limits = new Map<bigint, CallLimit>();
  for (const { jobIndex, limit } of x402?.jobs ?? []) if (limit) limits.set(BigInt(jobIndex), limit);
  for (const { jobId, limit } of webhooks?.endpoints ?? []) if (limit) limits.set(jobId, limit);
  return [...limits].map(([jobId, limit]) => ({ jobId, ...limit }));
}

/** Keys of `[[webhooks.endpoints]]` that order and limit JobCalls. */
export const endpointKeys: EntryKeys<"webhooks.endpoints"> = {
  list: "webhooks.endpoints",
  keys: {
    /** Place of the key in a request. JobCalls with one key are delivered one at a time, in the order of acceptance. */
    orderBy: parsedText(
      KEY_SOURCE_FORM,
      (text) => (parseKeySource(text) === undefined ? undefined : text),
      SHOWN,
    ).optional(),
    /** `hold` keeps the key of a dead letter from runners. Default: `continue` with the next JobCall of the key. */
    onDead: oneOf(["continue", "hold"]).optional(),
    ...limitKeys,
  },
  alternative: "an order_by",
  claim(endpoint: EndpointTable, place, tables: AllTables) {
    const { path = "", jobId, orderBy, onDead } = endpoint;
    const limit = limitOf(endpoint);
    if (orderBy === undefined && onDead !== undefined && !place.at("order_by").isReported)
      place.at("on_dead").report("is set without order_by; expected both, or neither");
    if (orderBy === undefined && limit === undefined) return undefined;
    const source = orderBy === undefined ? undefined : parseKeySource(orderBy);
    // A secret header must not be a key, because operators see keys.
    const secret = source?.in === "header" ? whyWithheld(source.name, proofHeaders(endpoint)) : undefined;
    if (secret !== undefined)
      place.at("order_by").report(`is "${orderBy}", which ${secret}; expected another header`);
    const orderOf: EndpointOfPart["orderOf"] =
      source &&
      ((request, body) => {
        const key = keyOf(source, request, body);
        return key === undefined ? undefined : { owner: path, key, holdsOnDead: onDead === "hold" };
      });
    return {
      keys: orderBy === undefined ? {} : { onDead: onDead ?? "continue" },
      check: () => checkLimit(endpoint, jobId, place, tables),
      complete: () => ({ ...(orderOf && { orderOf }), ...(limit && { limit }) }),
    };
  },
};
