import * as z from "zod";
import type { Checked, Complete } from "../../config/check-shape.ts";
import type { Job } from "../../config/config.ts";
import { ConfigTable, type TableContext } from "../../config/config-table.ts";
import type { EntryKeys, JobRunner } from "../../config/entry-keys.ts";
import { chargesOf, type JobTable } from "../../config/jobs.ts";
import { earlierPlace, type Place } from "../../config/mistakes.ts";
import { checkForwardedHeaders } from "../../config/rules/forwarded-headers.ts";
import { RouteCheck } from "../../config/rules/routes.ts";
import { checkAuthorities, checkKeyPair } from "../../config/rules/tls.ts";
import { checkCredentials } from "../../config/rules/urls.ts";
import {
  headerValue,
  integer,
  jobName,
  oneOf,
  pemFile,
  seconds,
  trueOrFalse,
} from "../../config/value-types.ts";
import { baseUrlOrSocket, headerName, headerNames, route, shownUrl } from "../../config/web-types.ts";
import { ALL_HEADERS, BOUND_HEADERS, OF_CONNECTION, PLAIN_NAME } from "../../core/job-call.ts";
import { type BindAddress, isLoopbackHost } from "../../core/network-address.ts";
import { isObject } from "../../core/objects.ts";
import { parseRoute } from "../../core/route.ts";
import { type HttpServer, placeOf } from "../outbound/http-server.ts";
import { accessSchema, accountKeys, checkAccess } from "./access/config.ts";
import { defaultRunSecs, defaultWaitSecs } from "./call-times.ts";

const api = z.object({
  /** Unique name, which jobs refer to. */
  name: jobName(),
  url: baseUrlOrSocket(),
  /** Headers that jobgate sets on each request, replacing the client's headers. */
  headers: z.record(headerName(), headerValue()).describe('a table of header = "value"').default({}),
  /** Headers of the client's request that the API gets; "*" for every end-to-end header except credentials. */
  forwardHeaders: z
    .union([oneOf([ALL_HEADERS]), headerNames()])
    .describe('"*" or an array of header names')
    .default([...BOUND_HEADERS]),
  /** Longest time until the first byte of an answer, and longest silence after it. */
  timeoutMs: seconds(0.001).default(30_000),
  /** Largest number of requests in progress. */
  concurrency: integer(1, 10_000).default(64),
  /** Routes that are passed through without a payment. */
  free: z.array(route()).describe("an array of routes").default([]),
  /** Limit on one client's requests to these routes in a second. */
  freeRate: integer(1, 1_000_000).default(10),
  /** Access without a payment. */
  access: z.array(accessSchema).describe("an array of tables, one for each way in").default([]),
  /** Route that answers below 400 while the API works. Default: the API's health is not checked. */
  health: route().optional(),
  /** Limit on one payer's or client's calls in a minute that end without a charge. */
  unchargedPerMinute: integer(1, 1_000_000).default(30),
  /** PEM files for an `https://` URL. */
  tls: z
    .object({
      /** Authorities of the API. Default: the system's. */
      ca: pemFile().optional(),
      /** Client certificate of jobgate, with its key. */
      cert: pemFile().optional(),
      key: pemFile(true).optional(),
    })
    .optional(),
});

type ApiTable = Checked<z.output<typeof api>>;
export type ApiConfig = Complete<z.output<typeof api>>;

/** `[[apis]]` */
export const apisTable = ConfigTable.of({
  keys: { apis: z.array(api).describe("an array of tables, one for each API").default([]) },
  accounts: { path: ["apis", "access"], keys: accountKeys },
  check({ apis = [] }, context) {
    const names = new Map<string, Place>();
    const routes = new RouteCheck(context.tables);
    for (const [i, job] of (context.tables.jobs ?? []).entries())
      routes.know(job?.route, context.mistakes.at("jobs", i, "route"));
    for (const [i, table] of apis.entries()) {
      if (table === undefined) continue;
      const place = context.place.at("apis", i);
      checkApi(table, place, names, context);
      checkAccess(table.access ?? [], place.at("access"), placedJobs(table.name, context));
      for (const [j, free] of (table.free ?? []).entries()) routes.add(free, place.at("free", j));
    }
    checkIndexes(context);
    if (apis.length > 0 && context.tables.runner?.maxAttempts === 1)
      context.mistakes
        .at("runner", "max_attempts")
        .warn("is 1: a call of an API that a crash cuts off becomes a dead letter; expected at least 2");
  },
  complete: ({ apis }): readonly ApiConfig[] =>
    apis.map((api) => ({ ...api, headers: inLowerCase(api.headers) })),
  summary: ({ length }) => (length > 0 ? `APIs: ${length}` : undefined),
});

/** The operator's header replaces the client's header, whose name arrives in lower case. */
function inLowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Reports a job of an API whose index another job or a webhook also has, because runners select JobCalls only by the index. */
function checkIndexes({ tables, mistakes }: TableContext): void {
  const { jobs = [], jobPricing = {}, webhooks } = tables;
  const byIndex = new Map<number | undefined, number[]>();
  for (const [i, job] of jobs.entries())
    byIndex.set(job?.jobIndex, [...(byIndex.get(job?.jobIndex) ?? []), i]);
  for (const [i, job] of (jobs as readonly (ApiJobTable | undefined)[]).entries()) {
    const { api: name, jobIndex, serviceId } = job ?? {};
    if (name === undefined || jobIndex === undefined) continue;
    const ofJobs = byIndex.get(jobIndex)?.find((other) => jobs[other]?.serviceId !== serviceId);
    const ofPrices = Object.entries(jobPricing).find(
      ([service, prices]) =>
        service !== String(serviceId ?? tables.serviceId) && prices?.[String(jobIndex)] !== undefined,
    );
    const ofEndpoints = (webhooks?.endpoints ?? []).findIndex(
      (endpoint) => endpoint?.jobId === BigInt(jobIndex),
    );
    const same =
      ofJobs !== undefined
        ? mistakes.at("jobs", ofJobs, "job_index")
        : ofPrices !== undefined
          ? mistakes.at("job_pricing", ofPrices[0], String(jobIndex))
          : ofEndpoints >= 0
            ? mistakes.at("webhooks", "endpoints", ofEndpoints, "job_id")
            : undefined;
    if (same !== undefined)
      mistakes
        .at("jobs", i, "job_index")
        .report(`is ${jobIndex}, as in ${same.text}; expected a number of its own, since the job has an api`);
  }
}

function checkApi(
  { name, url, headers = {}, forwardHeaders, free = [], health, tls }: ApiTable,
  place: Place,
  names: Map<string, Place>,
  { tables }: TableContext,
): void {
  const first = name === undefined ? undefined : earlierPlace(names, name, place.at("name"));
  if (first !== undefined)
    place.at("name").report(`is the same as in ${first.text}; expected a name of its own`);
  if (forwardHeaders !== ALL_HEADERS) checkForwardedHeaders(forwardHeaders, place.at("forward_headers"));
  for (const name of Object.keys(headers)) {
    const problem = apiHeaderProblem(name);
    if (problem !== undefined)
      place
        .at("headers", name)
        .report(`${problem}; expected a name of letters, digits and hyphens that is free`);
  }
  for (const [i, text] of free.entries())
    if (text !== undefined && /^[A-Z|]+ \/\{[^}]*\.\.\.\}$/.test(text))
      place.at("free", i).warn(`is "${text}": everything that is not sold is free`);
  if (health !== undefined && !/^GET \/[^{]*$/.test(health))
    place.at("health").report(`is "${health}"; expected GET and a path without parameters`);
  if (tls !== undefined) checkClientTls(tls, url, place.at("tls"));
  if (url === undefined) return;
  const own = [tables.runner, tables.x402, tables.webhooks, tables.operator, ...tables.listeners];
  if (own.some((table) => table?.bindAddress !== undefined && isAt(url, table.bindAddress)))
    place.at("url").report(`is "${url}", a listener of this jobgate; expected the address of the API`);
  if (url.startsWith("unix:")) return;
  checkCredentials(place.at("url"), url);
  const { protocol, hostname } = new URL(url);
  if (protocol === "http:" && !isLoopbackHost(hostname) && Object.keys(headers).length > 0)
    place.at("headers").warn(`are sent in the clear to ${hostname}`);
}

function placedJobs(api: string | undefined, { tables, mistakes }: TableContext) {
  const policies = tables.x402?.jobPolicies ?? [];
  return ((tables.jobs ?? []) as readonly (ApiJobTable | undefined)[]).flatMap((job, i) => {
    if (job === undefined || job.api !== api) return [];
    const { price, serviceId = tables.serviceId, jobIndex } = job;
    const policy = policies.find((one) => one?.serviceId === serviceId && one?.jobIndex === jobIndex);
    const isRestricted = (job.mode ?? policy?.invocationMode) === "restricted_paid";
    const isPricedByRequest = price !== undefined && !(isObject(price) && "unit" in price);
    return [{ isRestricted, isPricedByRequest, place: mistakes.at("jobs", i) }];
  });
}

type TlsTable = NonNullable<ApiTable["tls"]>;

function checkClientTls({ ca, cert, key }: TlsTable, url: string | undefined, place: Place): void {
  if (url !== undefined && !url.startsWith("https:"))
    place.report(`is set for "${shownUrl(url)}"; expected it for an https:// URL`);
  const missing = key === undefined ? "key" : "cert";
  if ((cert === undefined) !== (key === undefined) && !place.at(missing).isReported)
    place.at(missing).reportMissing("is missing; expected the certificate and its key, or neither");
  checkKeyPair(cert, key, place);
  checkAuthorities(ca, place.at("ca"));
}

/** Returns true if a URL leads to a listener. A listener of all interfaces has the loopback addresses too. */
function isAt(url: string, address: BindAddress): boolean {
  if (address.kind === "unix") return url === `unix:${address.path}`;
  if (url.startsWith("unix:") || address.port === 0) return false;
  const { protocol, hostname, port } = new URL(url);
  if (Number(port || (protocol === "https:" ? 443 : 80)) !== address.port) return false;
  const host = hostname.replace(/^\[|\]$/g, "");
  const isLocal =
    isLoopbackHost(hostname) && (isLoopbackHost(address.host) || ALL_INTERFACES.has(address.host));
  return isLocal || host === address.host;
}

const ALL_INTERFACES: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);

/** Kind of the runners that are APIs. */
export const API = "api";

/** A job that an API does. */
export interface ApiJob extends JobRunner {
  readonly kind: typeof API;
  /** True if a call with an unknown outcome may be repeated. */
  readonly isIdempotent: boolean;
  /** True if buyers get the answer while it arrives; undefined if they get it once it is stored. */
  readonly stream?: { readonly endsWithBuyer: boolean } | undefined;
}

interface ApiJobTable extends JobTable {
  readonly api?: string;
  readonly idempotent?: boolean;
  readonly stream?: boolean;
  readonly cancel?: "with_client";
}

/** Keys of `[[jobs]]` for jobs that an API does. */
export const apiJobKeys: EntryKeys<"jobs"> = {
  list: "jobs",
  keys: {
    api: jobName().optional(),
    idempotent: trueOrFalse().optional(),
    stream: trueOrFalse().optional(),
    cancel: oneOf(["with_client"]).optional(),
  },
  alternative: "an api",
  claim(job: ApiJobTable, place, tables: { readonly apis?: readonly (ApiTable | undefined)[] }) {
    const {
      api: name,
      idempotent = false,
      stream = false,
      cancel,
      charge = "after",
      answer = "result",
    } = job;
    if (name === undefined) {
      for (const key of ["idempotent", "stream", "cancel"] as const)
        if (job[key] !== undefined) place.at(key).report("is set without api; expected both, or neither");
      return undefined;
    }
    const found = tables.apis?.find((table) => table?.name === name);
    return {
      runBy: `API ${name}`,
      setHeaders: Object.keys(found?.headers ?? {}).map((name) => name.toLowerCase()),
      keys: {
        charge,
        answer,
        maxResultBytes: job.maxResultBytes ?? MAX_API_RESULT_BYTES,
        maxRunSecs: job.maxRunSecs ?? defaultRunSecs(found, { isStream: stream }),
        maxWaitSecs: job.maxWaitSecs ?? (answer === "result" ? defaultWaitSecs(found) : undefined),
        forwardHeaders: job.forwardHeaders ?? (found?.forwardHeaders && [found.forwardHeaders].flat()),
      },
      check() {
        if (tables.apis?.every((table) => table?.name !== name) ?? true)
          place.at("api").report(`is "${name}", which no entry of [[apis]] has; expected the name of an API`);
        if (job.route === undefined && !place.at("route").isReported)
          place
            .at("route")
            .reportMissing("is missing; expected the methods and path of the API, since it has an api");
        if (stream && chargesOf({ charge }).some((one) => one !== "before"))
          place
            .at("stream")
            .report(
              'is true, so its buyers have the answer before it ends; expected charge = "before" beside it',
            );
        if (stream && answer !== "result" && !place.at("stream").isReported)
          place
            .at("stream")
            .report('is true, so its buyers wait for the answer; expected answer = "result" beside it');
        if (cancel !== undefined && !stream)
          place.at("cancel").report("is set without stream = true; expected both, or neither");
        if (chargesOf({ charge }).includes("before") && (job.onFailure ?? "keep") === "keep")
          place
            .at("charge")
            .warn('is "before", and on_failure is "keep": buyers pay for answers that are errors of the API');
        const { methods = [] } = (job.route === undefined ? undefined : parseRoute(job.route)) ?? {};
        const isUnclear = methods.includes("POST") && job.idempotent === undefined;
        if (chargesOf({ charge }).includes("after") && isUnclear)
          place
            .at("charge")
            .warn(
              'is "after", and a POST whose connection breaks is not made again and not charged; expected idempotent = true if the API knows Idempotency-Key, or else false',
            );
      },
      complete() {
        const runner: ApiJob = { kind: API, name, sendsHeadersOn: true, isIdempotent: idempotent };
        return { runner: stream ? { ...runner, stream: { endsWithBuyer: cancel !== undefined } } : runner };
      },
    };
  },
};

function isOf(api: string, runner: JobRunner | undefined): runner is ApiJob {
  return runner?.kind === API && runner.name === api;
}

/** Returns the jobs that an API does. */
export function jobsOf(api: string, jobs: readonly Job[] = []): SoldJob[] {
  return jobs.flatMap((job) => (isOf(api, job.runner) ? { ...job, runner: job.runner } : []));
}

/** A job that an API does, as it is sold. */
export type SoldJob = Job & { readonly runner: ApiJob };

const MAX_API_RESULT_BYTES = 10_485_760;

/** Returns the server of an API. */
export function serverOf({ url, concurrency, timeoutMs, tls }: ApiConfig): HttpServer {
  return {
    ...placeOf(url),
    tls: tls && { ca: tls.ca?.text, cert: tls.cert?.text, key: tls.key?.text },
    ...{ concurrency, timeoutMs, timesSilence: true },
  };
}

/** Names that jobgate sets on each request to an API. */
const SET_BY_JOBGATE =
  /^(accept-encoding|idempotency-key|traceparent|x-forwarded-(for|host|proto)|x-jobgate-.*)$/i;

/** Returns the reason why an operator cannot set a header on the requests to an API. */
function apiHeaderProblem(name: string): string | undefined {
  if (!PLAIN_NAME.test(name)) return "has a character that servers read in different ways";
  if (OF_CONNECTION.test(name)) return "is a header of the connection";
  return SET_BY_JOBGATE.test(name) ? "is set by jobgate itself" : undefined;
}
