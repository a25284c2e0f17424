import { parentPort } from "node:worker_threads";
import { type BodyProblem, BodySchema, startCpuClock } from "../../core/body-schema.ts";
import { boundedCache } from "../../core/bounded-cache.ts";

/** A body to check. */
export interface SchemaTask {
  /** JSON Schema that compiles. */
  readonly schema: string;
  readonly body: Uint8Array;
}

export interface SchemaAnswer {
  readonly problems: readonly BodyProblem[];
  /** CPU time of the check. */
  readonly ms: number;
}

const MAX_SCHEMAS = 100;
const schemas = boundedCache<string, BodySchema>(MAX_SCHEMAS);

async function check({ schema, body }: SchemaTask): Promise<SchemaAnswer> {
  const compiled = schemas.get(schema) ?? (await BodySchema.compile(schema));
  schemas.set(schema, compiled);
  const cpuMs = startCpuClock();
  const problems = compiled.check(body);
  return { problems, ms: cpuMs() };
}

parentPort?.on("message", (task: SchemaTask) => {
  void check(task).then((answer) => parentPort?.postMessage(answer));
});
