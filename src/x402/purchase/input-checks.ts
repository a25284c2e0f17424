import type { Job } from "../../config/config.ts";
import { BodySchema } from "../../core/body-schema.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { AddressedRequest } from "../../http/client-address.ts";
import { rateLimited } from "../../http/rate-limit.ts";
import type { BodyChecks, InputSchema } from "./body-checks.ts";
import type { ClientLimits } from "./client-limits.ts";

interface Parts {
  readonly bodies: BodyChecks;
  readonly limits: Pick<ClientLimits, "clientOf">;
}

/** Schemas of the jobs that have one. */
export class InputChecks {
  readonly #schemas: ReadonlyMap<string, InputSchema>;
  readonly #parts: Parts;

  private constructor(schemas: ReadonlyMap<string, InputSchema>, parts: Parts) {
    this.#schemas = schemas;
    this.#parts = parts;
  }

  /** @throws SchemaProblem for a schema that a configuration file could not have had */
  static async compile(jobs: readonly Job[], parts: Parts): Promise<InputChecks> {
    const schemas = new Map<string, InputSchema>();
    for (const { serviceId, jobIndex, input } of jobs) {
      if (input?.schema === undefined) continue;
      const compiled = await BodySchema.compile(input.schema);
      schemas.set(jobKeyText(serviceId, jobIndex), { text: input.schema, compiled });
    }
    return new InputChecks(schemas, parts);
  }

  /**
   * Returns the refusal of a body that the job cannot take, or that was not checked because its client has used its time;
   * undefined for a body that the job can take.
   */
  async refusalOf(
    request: AddressedRequest,
    { serviceId, jobIndex }: JobKey,
    body: Uint8Array,
  ): Promise<GatewayError | undefined> {
    const schema = this.#schemas.get(jobKeyText(serviceId, jobIndex));
    if (schema === undefined) return undefined;
    const { bodies, limits } = this.#parts;
    const invalid = await bodies.check(limits.clientOf(request), schema, body);
    if (typeof invalid === "number") {
      const reason = "Bodies that take long to check against the job's input schema have used up their time";
      return rateLimited(`${reason}. Nothing was charged`, invalid);
    }
    const [first] = invalid;
    if (first === undefined) return undefined;
    const what = `${first.path === "" ? "the body" : first.path} ${first.message}`;
    return new GatewayError(
      "invalid_input",
      `The body does not match the job's input schema: ${what}. Nothing was charged.`,
      { details: { invalid } },
    );
  }
}
