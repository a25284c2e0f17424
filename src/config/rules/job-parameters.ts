import { BodySchema, SchemaProblem } from "../../core/body-schema.ts";
import { isObject } from "../../core/objects.ts";
import { parameterNames, parseRoute } from "../../core/route.ts";
import { toParameters } from "../jobs.ts";
import type { MistakeList, Place } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";

/** Keywords that are references, or that name targets of references. */
const REFERENCES = /"\$(?:ref|dynamicRef|id)":/;

/** Checks the schemas of each job's path and query. */
export async function checkJobParameters({ jobs = [] }: ConfigTables, mistakes: MistakeList): Promise<void> {
  for (const [i, job] of jobs.entries()) {
    const query = job?.input?.query;
    if (query === undefined) continue;
    const place = mistakes.at("jobs", i, "input", "query");
    if (job?.route === undefined) {
      if (!mistakes.at("jobs", i, "route").isReported)
        place.report("is for a job that is sold at a route; expected a route, or no query");
      continue;
    }
    const route = parseRoute(job.route);
    const inPath = route === undefined ? [] : parameterNames(route);
    const { properties, required, additionalProperties } = toParameters(query);
    for (const [name, schema] of Object.entries(properties)) await checkSchema(schema, place.at(name));
    if (typeof additionalProperties !== "boolean")
      place.at("additionalProperties").report("is not a boolean; expected true or false");
    const fields = Object.keys(properties).filter((name) => !inPath.includes(name));
    const areFields = Array.isArray(required) && required.every((name) => fields.includes(name));
    if (!areFields)
      place
        .at("required")
        .report(
          "is not an array of fields of the query; expected names that query has, and the path has not",
        );
  }
}

async function checkSchema(schema: unknown, place: Place): Promise<void> {
  const expected = "expected a table with a JSON Schema 2020-12 without references";
  if (!isObject(schema)) return void place.report(`is no table; ${expected}`);
  const text = JSON.stringify(schema);
  if (REFERENCES.test(text)) return void place.report(`has a reference or a name; ${expected}`);
  try {
    await BodySchema.compile(text);
  } catch (error) {
    if (!(error instanceof SchemaProblem)) throw error;
    place.report(`${error.message}; ${expected}`);
  }
}
