import { BodySchema, isJsonType, MAX_SCHEMA_NESTING, SchemaProblem } from "../core/body-schema.ts";
import { defined, isNestedDeeper, parseJson } from "../core/objects.ts";
import type { JobInput } from "./jobs.ts";
import type { MistakeList, Place } from "./mistakes.ts";
import { pathFrom, readNamedFile } from "./named-files.ts";
import type { ConfigTables } from "./schema.ts";

/**
 * Reads the schema and the example of each job, and checks them.
 * @param folder that their paths are relative to
 * @returns inputs by the index of the job's entry
 */
export async function readJobInputs(
  { jobs = [] }: ConfigTables,
  folder: string,
  mistakes: MistakeList,
): Promise<ReadonlyMap<number, JobInput>> {
  const inputs = new Map<number, JobInput>();
  for (const [i, job] of jobs.entries()) {
    const input = job?.input;
    if (input === undefined) continue;
    const place = mistakes.at("jobs", i, "input");
    const { contentType = "application/json" } = input;
    if (input.schema !== undefined && !isJsonType(contentType)) {
      place
        .at("schema")
        .report("is for a body that is not JSON; expected content_type to be application/json, or no schema");
    }
    const read = async (key: "schema" | "example") => {
      const file = input[key];
      const from = { place: place.at(key), expected: "the path of a file" };
      return file === undefined ? undefined : readNamedFile(pathFrom(folder, file), from);
    };
    const schema = await read("schema");
    const example = await read("example");
    if (
      example !== undefined &&
      isJsonType(contentType) &&
      isNestedDeeper(parseJson(example), MAX_SCHEMA_NESTING)
    )
      place.at("example").report(`is nested more than ${MAX_SCHEMA_NESTING} levels deep; expected less`);
    else if (schema !== undefined) await checkSchema({ schema, example }, { place, ...input });
    inputs.set(i, defined({ contentType, schema, example }));
  }
  return inputs;
}

async function checkSchema(
  { schema, example }: { readonly schema: string; readonly example: string | undefined },
  at: { readonly place: Place; readonly schema?: string | undefined },
): Promise<void> {
  try {
    const compiled = await BodySchema.compile(schema);
    const [problem] = example === undefined ? [] : compiled.check(Buffer.from(example));
    if (problem === undefined) return;
    const what = `${problem.path} ${problem.message}`.trim();
    at.place.at("example").report(`does not match the schema: ${what}; expected a body that does`);
  } catch (error) {
    if (!(error instanceof SchemaProblem)) throw error;
    at.place
      .at("schema")
      .report(
        `names ${at.schema}, which ${error.message}; expected JSON Schema 2020-12 without remote references`,
      );
  }
}
