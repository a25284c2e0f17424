import { createHash } from "node:crypto";
import type { Job, X402Config } from "../../config/config.ts";
import { type BodyProblem, BodySchema, startCpuClock } from "../../core/body-schema.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { ParameterReader } from "../../core/parameters.ts";
import { rateLimited } from "../../http/limits.ts";
import type { AddressedRequest } from "../../http/request.ts";
import { CheckBudget } from "./check-budget.ts";
import type { ClientLimits } from "./client-limits.ts";
import { SchemaThread } from "./schema-thread.ts";

/** CPU time after which a check in this thread is given up. A check that other processes interrupted may take twice as long. */
const MAX_HERE_MS = 5;
/** Largest body that is checked in this thread, because parsing a larger body already takes {@link MAX_HERE_MS}. */
const MAX_HERE_BYTES = 64 * 1024;
/** The CPU time for a check once all clients together have used up their time. A check of an ordinary body takes 0.1 ms. */
const LEAST_HERE_MS = 2;
/** Time up to which a check is not counted, because any request takes that long. */
const FREE_MS = 1;
/** Largest JSON body that is read without looking at the budget, because reading it takes less than {@link FREE_MS}. */
const FREE_BYTES = 16 * 1024;
/** Time that is counted for a waiting check before the actual time of the check is known. */
const EXPECTED_MS = 10;
/** Bound on the outcomes that are kept, so that a buyer's paid request needs no second check of the same body. */
const MAX_KNOWN = 1_000;

/** A schema as text and compiled. */
interface InputSchema {
  readonly text: string;
  readonly compiled: BodySchema;
}

/**
 * Problems of a body. A number means that the body was not checked: its client may resend it after so many
 * milliseconds.
 */
type Outcome = readonly BodyProblem[] | number;

/**
 * Checks bodies in the time that a budget leaves for them: fast checks at once, other checks in a thread and one after
 * another. This also applies to requests with a payment, because the payment has not been verified yet.
 */
export class BodyChecks {
  readonly #budget = new CheckBudget();
  readonly #thread = new SchemaThread();
  readonly #known = boundedCache<string, readonly BodyProblem[]>(MAX_KNOWN);
  readonly #clock: Clock;
  #last: Promise<unknown> = Promise.resolve();

  /** @param clock clock that measures how much time clients have earned back */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param client client whose time is used @throws Error when the thread died */
  async check(client: string, schema: InputSchema, body: Uint8Array): Promise<Outcome> {
    return this.#checkHere(client, schema, body) ?? (await this.#checkInThread(client, schema, body));
  }

  /**
   * Reads a JSON body in this thread, in the same time as checks. Reading cannot be interrupted, so the caller bounds the
   * size of the body.
   * @throws GatewayError `rate_limited` when the client, or all clients together, have used their time
   */
  read<Result>(client: string, body: Uint8Array, read: () => Result): Result {
    if (body.length <= FREE_BYTES) return read();
    const waitMs = this.#budget.waitMs(client, this.#clock(), true);
    if (waitMs !== undefined) {
      const reason = "Bodies that take long to read for their price have used up their time";
      throw rateLimited(`${reason}. Nothing was charged`, waitMs);
    }
    const cpuMs = startCpuClock();
    try {
      return read();
    } finally {
      this.#count(client, cpuMs());
    }
  }

  /** Ends the thread. */
  stop(): Promise<void> {
    return this.#thread.stop();
  }

  /** Returns undefined for a body that takes too long, and for a client that has used its time. */
  #checkHere(
    client: string,
    { compiled }: InputSchema,
    body: Uint8Array,
  ): readonly BodyProblem[] | undefined {
    const now = this.#clock();
    if (body.length > MAX_HERE_BYTES || this.#budget.waitMs(client, now) !== undefined) return undefined;
    const limitMs = this.#budget.isUsedUp(now) ? LEAST_HERE_MS : MAX_HERE_MS;
    const cpuMs = startCpuClock();
    const problems = compiled.checkWithin(limitMs, body);
    this.#count(client, cpuMs(), problems === undefined);
    return problems;
  }

  #count(client: string, ms: number, isSlow = false): void {
    if (ms > FREE_MS) this.#budget.spend(client, ms, this.#clock(), isSlow);
  }

  async #checkInThread(client: string, { text }: InputSchema, body: Uint8Array): Promise<Outcome> {
    const key = createHash("sha256").update(text).update("\0").update(body).digest("base64");
    const now = this.#clock();
    const outcome = this.#known.get(key) ?? this.#budget.waitMs(client, now, true);
    if (outcome !== undefined) return outcome;
    this.#budget.spend(client, EXPECTED_MS, now);
    const turn = this.#last.then(async () => {
      const startsAt = this.#clock();
      this.#budget.spend(client, -EXPECTED_MS, startsAt);
      // The client's other bodies may have used its time up since, or another client brought the same body.
      const meanwhile = this.#known.get(key) ?? this.#budget.ownWaitMs(client, startsAt);
      if (meanwhile !== undefined) return meanwhile;
      const { problems, ms } = await this.#thread.check({ schema: text, body });
      this.#budget.spend(client, ms, this.#clock());
      this.#known.set(key, problems);
      return problems;
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

interface Parts {
  readonly bodies: BodyChecks;
  readonly limits: Pick<ClientLimits, "clientOf">;
}

type Config = Pick<X402Config, "jobs" | "maxBodyBytes">;

/** Schemas of a job's input. */
interface Input {
  readonly body: InputSchema | undefined;
  readonly parameters: { readonly reader: ParameterReader; readonly schema: InputSchema } | undefined;
}

/** Input that a request has for a job. */
interface GivenInput {
  /**
   * Undefined if the body is not checked; an empty query is not checked then either. Such requests buy nothing, but
   * catalogues send them to learn the price.
   */
  readonly body: Uint8Array | undefined;
  /** Parameters of the path of the job's route, decoded. */
  readonly params: readonly (readonly [name: string, value: string])[];
}

/** Limits and schemas of the jobs' input, under one configuration. */
export class InputChecks {
  readonly #inputs: ReadonlyMap<string, Input>;
  /** Sizes of the largest bodies, for jobs that configure a size. */
  readonly #maxBodyBytes: ReadonlyMap<string, number>;
  readonly #config: Config;
  readonly #parts: Parts;

  private constructor(inputs: ReadonlyMap<string, Input>, config: Config, parts: Parts) {
    const { jobs = [] } = config;
    this.#inputs = inputs;
    this.#config = config;
    this.#maxBodyBytes = new Map(
      jobs.flatMap((job) =>
        job.maxBodyBytes === undefined ? [] : [[jobKeyText(job.serviceId, job.jobIndex), job.maxBodyBytes]],
      ),
    );
    this.#parts = parts;
  }

  /** @throws SchemaProblem for a schema that a configuration file could not have had */
  static async compile(config: Config, parts: Parts): Promise<InputChecks> {
    const inputs = new Map<string, Input>();
    for (const job of config.jobs ?? []) {
      const body = job.input?.schema === undefined ? undefined : await compiled(job.input.schema);
      const parameters = await parametersOf(job);
      if (body !== undefined || parameters !== undefined)
        inputs.set(jobKeyText(job.serviceId, job.jobIndex), { body, parameters });
    }
    return new InputChecks(inputs, config, parts);
  }

  /** Returns the size of the largest body that a job takes. */
  maxBodyBytes({ serviceId, jobIndex }: JobKey): number {
    return this.#maxBodyBytes.get(jobKeyText(serviceId, jobIndex)) ?? this.#config.maxBodyBytes;
  }

  /** Reports whether a job has a schema for bodies. */
  readsBody({ serviceId, jobIndex }: JobKey): boolean {
    return this.#inputs.get(jobKeyText(serviceId, jobIndex))?.body !== undefined;
  }

  /**
   * Returns the refusal of a path, query or body that the job cannot take, or that was not checked because its client has
   * used its time; undefined for an input that the job can take.
   */
  async refusalOf(
    request: AddressedRequest & { readonly query: string },
    { serviceId, jobIndex }: JobKey,
    { body, params }: GivenInput,
  ): Promise<GatewayError | undefined> {
    const input = this.#inputs.get(jobKeyText(serviceId, jobIndex));
    if (input === undefined) return undefined;
    const { parameters } = input;
    const read = parameters?.reader.read(params, request.query);
    if (read !== undefined && "message" in read) return refusalOfInput("request", [read]);
    const isQuestion = body === undefined && request.query === "";
    const unread = isQuestion ? unreadIn(params) : [];
    const refusal =
      parameters &&
      read &&
      (await this.#refusalOf("request", request, parameters.schema, Buffer.from(read.json), unread));
    if (refusal !== undefined || input.body === undefined || body === undefined) return refusal;
    return this.#refusalOf("body", request, input.body, body);
  }

  async #refusalOf(
    what: Checked,
    request: AddressedRequest,
    schema: InputSchema,
    json: Uint8Array,
    unread: readonly string[] = [],
  ): Promise<GatewayError | undefined> {
    const { bodies, limits } = this.#parts;
    const invalid = await bodies.check(limits.clientOf(request), schema, json);
    if (typeof invalid !== "number")
      return refusalOfInput(
        what,
        invalid.filter(({ path }) => !unread.some((place) => path.startsWith(place))),
      );
    const reason = "Bodies that take long to check against the job's input schema have used up their time";
    return rateLimited(`${reason}. Nothing was charged`, invalid);
  }
}

/**
 * Returns the parts that are not checked in a price query: the query string, and path parameters that are still placeholders
 * such as `{city}`.
 */
function unreadIn(params: GivenInput["params"]): string[] {
  return ["/query", ...params.flatMap(([name, value]) => (value === `{${name}}` ? `/path/${name}` : []))];
}

/** Part of the request that is checked. */
type Checked = "body" | "request";

function refusalOfInput(checked: Checked, invalid: readonly BodyProblem[]): GatewayError | undefined {
  const [first] = invalid;
  if (first === undefined) return undefined;
  const what = `${first.path === "" ? `the ${checked}` : first.path} ${first.message}`;
  return new GatewayError(
    "invalid_input",
    `The ${checked} does not match the job's input schema: ${what}. Nothing was charged.`,
    { details: { invalid } },
  );
}

async function compiled(text: string): Promise<InputSchema> {
  return { text, compiled: await BodySchema.compile(text) };
}

async function parametersOf({ route, parameters }: Job): Promise<Input["parameters"]> {
  if (route === undefined || parameters === undefined) return undefined;
  const reader = new ParameterReader(route, parameters);
  return { reader, schema: await compiled(JSON.stringify(reader.schema)) };
}
