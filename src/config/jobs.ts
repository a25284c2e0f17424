import * as z from "zod";
import type { Price, RequestPricing, WeiPrice } from "../core/amounts.ts";
import { type JobKey, MAX_RESULT_BYTES } from "../core/job-call.ts";
import { defined, isObject } from "../core/objects.ts";
import type { Parameters } from "../core/parameters.ts";
import type { ChargeKind } from "../core/payment.ts";
import { parseRoute, type Route } from "../core/route.ts";
import type { PromiseOfAbility } from "./abilities.ts";
import { type Checked, type Complete, required } from "./check-shape.ts";
import type { CallLimit, JobRunner, LeastCharge } from "./entry-keys.ts";
import { invocationMode, type JobPolicy, restrictionKeys, toPolicy } from "./job-policies.ts";
import { dollarsOrSource, type PriceSourceName } from "./price-sources.ts";
import {
  bodyBytes,
  integer,
  jobName,
  label,
  mediaType,
  namedFile,
  oneOf,
  prose,
  trueOrFalse,
  u32,
  u64,
  wei,
} from "./value-types.ts";
import { headerNames, queryParameter, route } from "./web-types.ts";
import { kind, needs } from "./wrong-value.ts";

/** Value of `on_failure` that promises nothing: the seller keeps the money. */
export const KEEP = "keep";

const bodyFile = (expected: string) => namedFile(expected, { from: "configuration", isSecret: false });

/**
 * JSON Schema of a parameter, or the value of a keyword that stands beside the parameters. Integers are bigint, as
 * TOML's are.
 */
const schemaOrKeyword = () =>
  kind(
    z.unknown().refine((value) => typeof value === "boolean" || Array.isArray(value) || isObject(value)),
    "a table with a JSON Schema",
    { view: jsonText },
  );

/** Makes the key `on_failure`, with the promises that a build can make. */
export function onFailure(promises: readonly PromiseOfAbility[]) {
  return needs(
    {
      abilityFor: (wanted) => promises.find(({ name }) => name === wanted)?.ability,
      otherwise: JSON.stringify(KEEP),
    },
    oneOf([KEEP, ...promises.map(({ name }) => name)]),
  ).default(KEEP);
}

/**
 * Makes the key `charge`. Buyers are charged the whole price before the job runs, the whole price after the job
 * succeeded, or an amount up to the price, which the runner names. "fixed" is an earlier name of "before".
 * @param partial the charge that a part of the build adds, if a part adds one
 */
export function charge(partial: readonly string[]) {
  const kind = () => oneOf(["before", "after", ...partial, "fixed"]);
  const expected = partial.map((name) => ({
    one: `"before", "after" or "${name}", or one of the first two and "${name}" in an array`,
    several: `an array of "before" or "after", and "${name}"`,
  }));
  const [{ one, several } = { one: '"before" or "after"', several: 'an array of "before" or "after"' }] =
    expected;
  return z
    .union([kind(), z.array(kind()).min(1).describe(several)])
    .describe(one)
    .optional();
}

/** A job that people and agents find by its name. rules/jobs.ts checks its keys against the rest of the file. */
export const jobSchema = z.object({
  /** Default: the gateway's service. */
  serviceId: u64().optional(),
  /** Default: the index that its route gets (rules/routes.ts). */
  jobIndex: u32().optional(),
  /** Methods and path at which the job is sold, in place of `/x402/jobs/…`. */
  route: route().optional(),
  /** The name is unique. */
  name: jobName().optional(),
  title: label().optional(),
  description: prose().optional(),
  tags: z.array(label()).describe("an array of strings").optional(),
  /** Used instead of an entry in `[[x402.job_policies]]`. */
  mode: invocationMode().optional(),
  ...restrictionKeys,
  /** `price` or `priceWei` is used instead of an entry in `[job_pricing]`. */
  price: dollarsOrSource().optional(),
  priceWei: wei().optional(),
  charge: charge([]),
  /** The money for a job that becomes a dead letter: kept, sent back, or left to the operator. */
  onFailure: onFailure([]),
  /** Paths of files are relative to the configuration file. */
  input: z
    .object({
      contentType: mediaType().optional(),
      /** JSON Schema 2020-12. A body that does not match is refused before its payment is read. */
      schema: bodyFile("the path of a file with a JSON Schema").optional(),
      example: bodyFile("the path of a file with a body that matches").optional(),
      /**
       * JSON Schemas of the route's parameters and of the query's fields. The keywords `required` and
       * `additionalProperties` stand beside them.
       */
      query: z
        .record(queryParameter(), schemaOrKeyword())
        .describe("a table of name = a table with a JSON Schema")
        .optional(),
    })
    .optional(),
  output: z
    .object({
      contentType: mediaType(),
      /** JSON Schema 2020-12 of the results, for clients. Results are not compared with it. */
      schema: bodyFile("the path of a file with a JSON Schema").optional(),
      example: bodyFile("the path of a file with a result").optional(),
    })
    .optional(),
  /** The answer to a paid request: an acceptance, or the result if the result is ready in time. */
  answer: oneOf(["accepted", "result"]).optional(),
  /** Longest wait for the result. Default: {@link DEFAULT_WAIT_SECS}. */
  maxWaitSecs: integer(1, 3_600).optional(),
  /** Maximum run time that clients are told. The runner's lease is separate. */
  maxRunSecs: integer(1, 31_536_000).optional(),
  /** Replaces the list in `[x402]`. */
  forwardHeaders: headerNames().optional(),
  /** Replaces the limit in `[x402]`. */
  maxBodyBytes: bodyBytes().optional(),
  /** Size of the largest result. */
  maxResultBytes: integer(1, 104_857_600).optional(),
  /** If false, a result is deleted once it was sent. */
  storeAnswers: trueOrFalse().default(true),
});

export type JobTable = Checked<z.output<typeof jobSchema>>;
export type JobOutput = Complete<z.output<typeof jobSchema>>;

/** Body of a job's requests or results, with the contents of the files that its entry names. */
export interface JobBody {
  readonly contentType: string;
  /** JSON Schema 2020-12 that compiles, as JSON. */
  readonly schema?: string;
  /** A body that matches the schema. */
  readonly example?: string;
}

/** A job as `[[jobs]]` describes it. */
export interface Job
  extends JobKey,
    Pick<
      JobOutput,
      | "name"
      | "title"
      | "description"
      | "tags"
      | "maxRunSecs"
      | "forwardHeaders"
      | "maxBodyBytes"
      | "maxResultBytes"
    > {
  /** Undefined if the job has an entry in `[[x402.job_policies]]`, or the default mode. */
  readonly policy?: JobPolicy;
  readonly input?: JobBody;
  readonly output?: JobBody;
  /** Undefined if every path that matches the route is accepted, with any query. */
  readonly parameters?: Parameters;
  /** Undefined if the job is sold at its IDs. */
  readonly route?: Route;
  /**
   * Time for which each paid request waits for its result. Undefined if requests are answered at once, except requests that
   * prefer to wait.
   */
  readonly waitSecs?: number;
  /** Undefined if results stay in the store. */
  readonly storeAnswers?: false;
  /** Undefined if the seller keeps the money. */
  readonly onFailure?: string;
  /** Undefined if the job is charged before it runs. */
  readonly charge?: readonly ChargeKind[];
  /**
   * Returns the minimum charge for a payment with this ceiling. The minimum applies if the payment expires while the
   * job runs.
   */
  readonly leastCharge?: LeastCharge;
  /** The part that runs the job. Undefined if runners subscribe to the job or jobs are pushed to them. */
  readonly runner?: JobRunner;
  /** Names of parts' terms on which the job is sold. */
  readonly terms?: readonly string[];
  /** Undefined if runners can take any number of JobCalls of the job. */
  readonly limit?: CallLimit;
  /** Price of the job, or the source that makes it. Undefined if the price comes from the gateway's price source. */
  readonly price?: Price | RequestPricing | PriceSourceName;
}

const DEFAULT_WAIT_SECS = 60;

/**
 * Completes a table without mistakes.
 * @param ofParts additions of parts to the job
 */
export function toJob(
  table: JobOutput & Pick<JobKey, "serviceId">,
  ofParts: {
    readonly runner: JobRunner | undefined;
    readonly terms: readonly string[];
    readonly price: RequestPricing | undefined;
    readonly leastCharge: LeastCharge | undefined;
    readonly limit: CallLimit | undefined;
  },
): Job {
  const { serviceId, mode } = table;
  const jobIndex = required(table.jobIndex);
  const { name, title, description, tags, maxRunSecs, forwardHeaders, maxBodyBytes, maxResultBytes } = table;
  return defined({
    serviceId,
    jobIndex,
    name,
    title,
    description,
    tags,
    input: describesBody(table.input) ? toBody(table.input) : bodyOf(ofParts.price),
    parameters: table.input?.query && toParameters(table.input.query),
    output: table.output && toBody(table.output),
    maxRunSecs,
    forwardHeaders,
    route: table.route === undefined ? undefined : parseRoute(table.route),
    maxBodyBytes,
    maxResultBytes,
    runner: ofParts.runner,
    price: ofParts.price ?? (table.priceWei === undefined ? table.price : weiPrice(table.priceWei)),
    waitSecs: table.answer === "result" ? (table.maxWaitSecs ?? DEFAULT_WAIT_SECS) : undefined,
    onFailure: table.onFailure === KEEP ? undefined : table.onFailure,
    charge: chargesOf(table).some((kind) => kind !== "before") ? chargesOf(table) : undefined,
    leastCharge: ofParts.leastCharge,
    limit: ofParts.limit,
    storeAnswers: table.storeAnswers ? undefined : (false as const),
    terms: ofParts.terms.length > 0 ? ofParts.terms : undefined,
    policy: mode && toPolicy({ ...table, serviceId, jobIndex, invocationMode: mode }),
  });
}

/** Returns true if an entry describes the body. An entry with a query alone does not. */
function describesBody(input: JobOutput["input"]): input is NonNullable<JobOutput["input"]> {
  return input !== undefined && Object.keys(input).join() !== "query";
}

/** Returns the body that a price reads. */
function bodyOf({ contentType }: Partial<RequestPricing> = {}): JobBody | undefined {
  return contentType === undefined ? undefined : { contentType };
}

/** Converts the query of a job's input, whose integers are bigint, as TOML's are. */
export function toParameters(query: Readonly<Record<string, unknown>>): Parameters {
  const { required = [], additionalProperties = true, ...properties } = JSON.parse(jsonText(query));
  return { properties, required, additionalProperties };
}

function jsonText(value: unknown): string {
  return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? Number(inner) : inner));
}

/** Returns the size of the largest result of a job. */
export function maxResultBytesOf({ maxResultBytes = MAX_RESULT_BYTES }: Pick<Job, "maxResultBytes">): number {
  return maxResultBytes;
}

/** Media type of a body whose job names none. */
export const DEFAULT_CONTENT_TYPE = "application/json";

function toBody({
  contentType,
  schema,
  example,
}: NonNullable<JobOutput["input"] | JobOutput["output"]>): JobBody {
  return defined({
    contentType: contentType ?? DEFAULT_CONTENT_TYPE,
    schema: schema?.text,
    example: example?.text,
  });
}

/** Defaults of keys for which a part can have other defaults. */
export const JOB_DEFAULTS = { charge: "before", answer: "accepted" } as const;

/** Charges with which a job can be sold. */
export function chargesOf({ charge = JOB_DEFAULTS.charge }: Pick<JobTable, "charge">): readonly ChargeKind[] {
  return [charge].flat().flatMap((kind) => (kind === "fixed" ? "before" : (kind ?? [])));
}

function weiPrice(amount: bigint): WeiPrice {
  return { unit: "wei", amount };
}
