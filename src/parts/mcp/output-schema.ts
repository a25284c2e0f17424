import type { JobBody } from "../../config/config.ts";
import { BodySchema, isJsonType } from "../../core/body-schema.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import { isObject } from "../../core/objects.ts";
import { embeddedSchema, jsonSchemaOf } from "../../x402/jobs/job-body.ts";

/**
 * `structuredContent` of an answer that shows its result in another form, because clients refuse an answer without
 * `structuredContent`.
 */
export const IN_CONTENT = { status: "in_content" };

const OTHER_ANSWER = {
  type: "object",
  description: 'The job is "running": ask for it as the task. Or its result is "in_content".',
  properties: { status: { enum: ["running", IN_CONTENT.status] }, task_id: { type: "string" } },
  required: ["status"],
};

/** Most compiled schemas that are kept, by their text. */
const MAX_SCHEMAS = 200;
const compiled = boundedCache<string, Promise<BodySchema>>(MAX_SCHEMAS);

/** Returns the schema of a tool's `structuredContent`; undefined for results that are not objects with a known schema. */
export function outputSchema(output: JobBody | undefined): object | undefined {
  if (!isStructured(output)) return undefined;
  return { type: "object", anyOf: [embeddedSchema(output, "/anyOf/0"), OTHER_ANSWER] };
}

/** Returns true if a result matches the schema. Runners may return other results. */
export async function isDescribed(
  { schema }: { readonly schema: string },
  result: Uint8Array,
): Promise<boolean> {
  const compiling = compiled.get(schema) ?? BodySchema.compile(schema);
  compiled.set(schema, compiling);
  return (await compiling).check(result).length === 0;
}

/** Returns true for a job whose results are objects, with a schema. */
export function isStructured(output: JobBody | undefined): output is JobBody & { readonly schema: string } {
  if (output?.schema === undefined || !isJsonType(output.contentType)) return false;
  const schema = jsonSchemaOf(output);
  return isObject(schema) && schema.type === "object";
}
