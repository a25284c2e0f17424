import type { JobBody } from "../../config/config.ts";
import { isJsonType } from "../../core/body-schema.ts";
import { isObject } from "../../core/objects.ts";
import { embeddedSchema } from "../../x402/jobs/job-body.ts";

const FORM = /^(?:multipart\/form-data|application\/x-www-form-urlencoded)(?:;|$)/i;

/** Returns the form in which a body of a media type is read. */
export function mediaKind(contentType: string): "json" | "text" | "binary" {
  if (isJsonType(contentType)) return "json";
  return contentType.toLowerCase().startsWith("text/") ? "text" : "binary";
}

/**
 * Returns the schema of a body for OpenAPI: generated clients drop a body without a schema.
 * @param contentType undefined for any type
 */
export function mediaSchema(contentType = "*/*"): object {
  if (FORM.test(contentType)) return { type: "object", additionalProperties: true };
  return { json: {}, text: { type: "string" }, binary: { type: "string", format: "binary" } }[
    mediaKind(contentType)
  ];
}

const DEFINITION = /^\/\$defs\/([A-Za-z0-9._-]+)(?=\/|$)/;

/**
 * Returns the schema of a job's request or result body, and the schemas that it defines, by their names as components of
 * OpenAPI, because generators ignore definitions within a schema.
 */
export function bodySchemas(name: string, body: JobBody): (readonly [name: string, schema: unknown])[] {
  const own = (definition: string) => `${name}.${definition}`;
  const place = `/components/schemas/${name}`;
  const whole = embeddedSchema(body, place, (part) =>
    DEFINITION.test(part)
      ? part.replace(DEFINITION, (_, definition: string) => `/components/schemas/${own(definition)}`)
      : `${place}${part}`,
  );
  if (!isObject(whole) || !isObject(whole.$defs)) return [[name, whole]];
  const { $defs, ...schema } = whole;
  const all = Object.entries($defs);
  const moved = all.filter(([definition]) => DEFINITION.test(`/$defs/${definition}`));
  const left = Object.fromEntries(all.filter((one) => !moved.includes(one)));
  return [
    [name, Object.keys(left).length === 0 ? schema : { ...schema, $defs: left }],
    ...moved.map(([definition, defined]) => [own(definition), defined] as const),
  ];
}
