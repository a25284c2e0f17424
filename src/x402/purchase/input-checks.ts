import type { Job } from "../../config/config.ts";
import { BodySchema } from "../../core/body-schema.ts";
import { GatewayError } from "../../core/errors.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";

/** Schemas of the jobs that have one. */
export class InputChecks {
  readonly #schemas: ReadonlyMap<string, BodySchema>;

  private constructor(schemas: ReadonlyMap<string, BodySchema>) {
    this.#schemas = schemas;
  }

  /** @throws SchemaProblem for a schema that a configuration file could not have had */
  static async compile(jobs: readonly Job[]): Promise<InputChecks> {
    const schemas = new Map<string, BodySchema>();
    for (const { serviceId, jobIndex, input } of jobs) {
      if (input?.schema === undefined) continue;
      schemas.set(jobKeyText(serviceId, jobIndex), await BodySchema.compile(input.schema));
    }
    return new InputChecks(schemas);
  }

  /** Returns the refusal of a body that the job cannot take; undefined for a body that it can. */
  refusalOf({ serviceId, jobIndex }: JobKey, body: Uint8Array): GatewayError | undefined {
    if (this.#schemas.size === 0) return undefined;
    const invalid = this.#schemas.get(jobKeyText(serviceId, jobIndex))?.check(body) ?? [];
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
