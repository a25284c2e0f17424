import type { Job, X402Config } from "../../config/config.ts";
import { type BodyProblem, BodySchema } from "../../core/body-schema.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { ParameterReader } from "../../core/parameters.ts";
import type { AddressedRequest } from "../../http/client-address.ts";
import { rateLimited } from "../../http/rate-limit.ts";
import type { BodyChecks, InputSchema } from "./body-checks.ts";
import type { ClientLimits } from "./client-limits.ts";

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
  /** Undefined: it is not checked. */
  readonly body: Uint8Array | undefined;
  /** Parameters of the path of the job's route, decoded. */
  readonly params: readonly (readonly [name: string, value: string])[];
}

/** Limits and schemas of what the jobs take, at one configuration. */
export class InputChecks {
  readonly #inputs: ReadonlyMap<string, Input>;
  /** Sizes of the largest bodies, of the jobs that have their own. */
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
    const refusal =
      parameters &&
      read &&
      (await this.#refusalOf("request", request, parameters.schema, Buffer.from(read.json)));
    if (refusal !== undefined || input.body === undefined || body === undefined) return refusal;
    return this.#refusalOf("body", request, input.body, body);
  }

  async #refusalOf(
    what: Checked,
    request: AddressedRequest,
    schema: InputSchema,
    json: Uint8Array,
  ): Promise<GatewayError | undefined> {
    const { bodies, limits } = this.#parts;
    const invalid = await bodies.check(limits.clientOf(request), schema, json);
    if (typeof invalid !== "number") return refusalOfInput(what, invalid);
    const reason = "Bodies that take long to check against the job's input schema have used up their time";
    return rateLimited(`${reason}. Nothing was charged`, invalid);
  }
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
