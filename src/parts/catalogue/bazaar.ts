import type { Job, JobBody } from "../../config/config.ts";
import { isJsonType } from "../../core/body-schema.ts";
import { isNestedDeeper } from "../../core/objects.ts";
import { NO_PARAMETERS, pathSchema, querySchema } from "../../core/parameters.ts";
import { parameterNames, takesBody } from "../../core/route.ts";
import { bodyExample, embeddedSchema } from "../../x402/jobs/job-body.ts";
import type { DeclareExtensions } from "../../x402/jobs/job-descriptions.ts";
import { mediaKind } from "./media-schema.ts";

/**
 * Most bytes of the extension as JSON. It is sent in a header and returned in the payment's header. Proxies pass 4 KiB of
 * response headers, and Node's client accepts 16 KiB.
 */
const MAX_BYTES = 2_048;
/** Deepest nesting, so that a payment that repeats the extension is not nested too deeply. */
const MAX_NESTING = 24;

/** Places of the bodies' schemas in the extension's schema. */
const BODY_SCHEMA = "/properties/input/properties/body";
const OUTPUT_SCHEMA = "/properties/output/properties/example";

/** x402's extension `bazaar`, with the facts that facilitators need to list a job. */
export type Bazaar = ReturnType<typeof bazaarOf>;

/** Declares the extension. */
export const bazaarExtension: DeclareExtensions = (job, headers) => ({
  bazaar: declareBazaar({ ...job, headers }),
});

/**
 * Declares the extension for a job. If the extension would be too large, leaves out the description of the result, then the
 * body's schema, then its example, all of which the list of jobs contains. Only a job at a route with parameters has a
 * `routeTemplate`. With a template for the IDs of jobs, catalogues would merge all jobs into a single entry at a URL that
 * cannot be paid.
 */
function declareBazaar(job: Job & Pick<Described, "headers">): Bazaar {
  const schema = job.input && embeddedSchema(job.input, BODY_SCHEMA);
  const example = job.input && bodyExample(job.input);
  // Without an example there is no body that is known to match the schema.
  const whole = { schema, body: schema === undefined ? (example ?? {}) : example };
  const { contentType } = job.output ?? {};
  const withoutResult = { ...job, output: contentType === undefined ? undefined : { contentType } };
  const several = [
    bazaarOf(job, whole),
    bazaarOf(withoutResult, whole),
    bazaarOf(withoutResult, { schema: undefined, body: example ?? {} }),
  ];
  const least = { ...withoutResult, parameters: NO_PARAMETERS, headers: [] };
  return several.find(fits) ?? bazaarOf(least, { schema: undefined, body: {} });
}

/** Checks the size, and that the schema refers to nothing outside, which facilitators refuse. */
function fits(bazaar: Bazaar): boolean {
  const json = JSON.stringify(bazaar);
  return (
    Buffer.byteLength(json) <= MAX_BYTES &&
    !isNestedDeeper(bazaar, MAX_NESTING) &&
    !/"\$(?:id":|ref":"(?!#))/.test(json)
  );
}

type Described = Omit<Job, "output"> & {
  readonly output?: Job["output"] | undefined;
  readonly headers: readonly string[];
};

function bazaarOf(
  job: Described,
  { schema = {}, body }: { readonly schema: unknown; readonly body: unknown },
) {
  const { input, output, headers } = job;
  const methods = job.route?.methods ?? ["POST"];
  const [method = "POST"] = methods;
  const isSent = takesBody(method);
  const hasBody = isSent && body !== undefined;
  const bodyType = isSent ? { bodyType: bodyTypeOf(input?.contentType) } : {};
  const sent: { readonly body?: unknown; readonly bodyType?: object } = isSent
    ? { bodyType: { enum: ["json", "form-data", "text"] }, body: schema }
    : {};
  const { queryParams, queryExample, pathParams } = parametersOf(job, isSent);
  return {
    ...routeTemplateOf(job),
    info: {
      input: { type: "http", method, ...bodyType, ...(hasBody && { body }), ...queryExample },
      ...(output && { output: outputOf(output) }),
    },
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        input: {
          type: "object",
          properties: {
            type: { const: "http" },
            method: { enum: methods },
            ...sent,
            ...(queryParams && { queryParams }),
            ...(pathParams && { pathParams }),
            ...(headers.length > 0 && { headers: headersSchema(headers) }),
          },
          required: ["type", "method", ...Object.keys(bodyType), ...(hasBody ? ["body"] : [])],
          additionalProperties: false,
        },
        // Crawlers read the schema of a result at its example.
        output: {
          type: "object",
          properties: { example: (output && embeddedSchema(output, OUTPUT_SCHEMA)) ?? {} },
          ...(output && { required: ["type"] }),
        },
      },
      required: ["input"],
    },
  };
}

function headersSchema(names: readonly string[]) {
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
  return { type: "object", properties, additionalProperties: { type: "string" } };
}

function outputOf(output: JobBody) {
  const example = bodyExample(output);
  const { contentType } = output;
  return { type: mediaKind(contentType), format: contentType, ...(example !== undefined && { example }) };
}

/** Returns the schemas of the path and the query, and an example of a query. */
function parametersOf(
  { route, parameters = NO_PARAMETERS }: Pick<Described, "route" | "parameters">,
  hasBody: boolean,
) {
  if (route === undefined) return {};
  const { properties, required } = querySchema(route, parameters);
  const examples = Object.fromEntries(
    Object.entries(properties).flatMap(([name, schema]) => {
      const { const: only, examples = [], enum: several = [], default: usual } = schema as Keywords;
      const value = only ?? examples[0] ?? usual ?? several[0];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  // A facilitator refuses an extension whose example does not match.
  const isWhole = required.length > 0 && required.every((name) => Object.hasOwn(examples, name));
  const names = parameterNames(route);
  const hasFields = Object.keys(properties).length > 0;
  return {
    queryParams:
      hasBody && !hasFields
        ? undefined
        : { type: "object", ...(hasFields && { properties }), ...(isWhole && { required }) },
    queryExample: Object.keys(examples).length > 0 ? { queryParams: examples } : undefined,
    pathParams:
      names.length > 0 ? { type: "object", properties: pathSchema(route, parameters).properties } : undefined,
  };
}

/** Keywords that name a value. */
interface Keywords {
  readonly const?: unknown;
  readonly examples?: readonly unknown[];
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
}

function bodyTypeOf(contentType = "application/json"): "json" | "form-data" | "text" {
  if (isJsonType(contentType)) return "json";
  return /^(?:multipart\/form-data|application\/x-www-form-urlencoded)/i.test(contentType)
    ? "form-data"
    : "text";
}

/** Characters of a template that facilitators accept. */
const TEMPLATE = /^[\w:/.~%-]+$/;

/** Writes a route with parameters as catalogues do: `/weather/:city`. */
function routeTemplateOf({ route }: Pick<Described, "route">): { readonly routeTemplate?: string } {
  if (route === undefined || parameterNames(route).length === 0) return {};
  const segments = route.segments.map((segment) =>
    segment.kind === "literal" ? segment.text : `:${segment.name}`,
  );
  const routeTemplate = `/${segments.join("/")}`;
  return TEMPLATE.test(routeTemplate) ? { routeTemplate } : {};
}
