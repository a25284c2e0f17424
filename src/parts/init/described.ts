import type { DescribedApi } from "./openapi/operations.ts";

/** Reads the description of an API. @throws Refusal with the reason */
export async function readDescription(source: string): Promise<DescribedApi> {
  const { readDocument } = await import("./openapi/document.ts");
  const { describedApi } = await import("./openapi/operations.ts");
  return describedApi(await readDocument(source));
}

/** Returns a name for an API, made from its title. */
export function apiName({ title }: Pick<DescribedApi, "title"> = {}): string {
  const name = (title ?? "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  return name.slice(0, 63) || "api";
}
