import { BodySchema, isJsonType, MAX_SCHEMA_NESTING, SchemaProblem } from "../../core/body-schema.ts";
import { isNestedDeeper, parseJson } from "../../core/objects.ts";
import { DEFAULT_CONTENT_TYPE } from "../jobs.ts";
import type { MistakeList, Place } from "../mistakes.ts";
import type { NamedFile } from "../named-files.ts";
import type { ConfigTables } from "../schema.ts";

interface BodyTable {
  readonly contentType?: string | undefined;
  readonly schema?: NamedFile | undefined;
  readonly example?: NamedFile | undefined;
}

/** Checks the schemas and the examples of each job. */
export async function checkJobBodies({ jobs = [] }: ConfigTables, mistakes: MistakeList): Promise<void> {
  for (const [i, job] of jobs.entries())
    for (const key of ["input", "output"] as const) await checkBody(job?.[key], mistakes.at("jobs", i, key));
}

async function checkBody(body: BodyTable | undefined, place: Place): Promise<void> {
  if (body === undefined) return;
  const { contentType = DEFAULT_CONTENT_TYPE, schema, example } = body;
  const isJson = isJsonType(contentType);
  if ((schema !== undefined || place.at("schema").isReported) && !isJson) {
    place
      .at("schema")
      .report("is for a body that is not JSON; expected content_type to be application/json, or no schema");
  }
  if (example !== undefined && isJson && isNestedDeeper(parseJson(example.text), MAX_SCHEMA_NESTING))
    place.at("example").report(`is nested more than ${MAX_SCHEMA_NESTING} levels deep; expected less`);
  else if (schema !== undefined) await checkSchema(schema, example, place);
}

async function checkSchema(schema: NamedFile, example: NamedFile | undefined, place: Place): Promise<void> {
  try {
    const compiled = await BodySchema.compile(schema.text);
    const [problem] = example === undefined ? [] : compiled.check(Buffer.from(example.text));
    if (problem === undefined) return;
    const what = `${problem.path} ${problem.message}`.trim();
    place.at("example").report(`does not match the schema: ${what}; expected a body that does`);
  } catch (error) {
    if (!(error instanceof SchemaProblem)) throw error;
    place
      .at("schema")
      .report(
        `names ${schema.path}, which ${error.message}; expected JSON Schema 2020-12 without remote references`,
      );
  }
}
