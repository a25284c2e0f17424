import { isJsonType } from "../../core/body-schema.ts";

/** Returns how a body of a media type is read. */
export function mediaKind(contentType: string): "json" | "text" | "binary" {
  if (isJsonType(contentType)) return "json";
  return contentType.toLowerCase().startsWith("text/") ? "text" : "binary";
}

/**
 * Returns the schema of a body for OpenAPI: generated clients drop a body without a schema.
 * @param contentType absent: any
 */
export function mediaSchema(contentType = "*/*"): object {
  return { json: {}, text: { type: "string" }, binary: { type: "string", format: "binary" } }[
    mediaKind(contentType)
  ];
}
