import type { JobRequest } from "../../http/request.ts";

/** Name, in lower case, of the header with the method and target of the request that a dry run checks. */
export const TARGET = "x-http-target";

/** Reads a method and target such as `GET /weather/Paris?units=metric`; undefined for any other text. */
export function parseTarget(text: string): Pick<JobRequest, "method" | "path" | "query"> | undefined {
  const [, method, path, query = ""] = /^([A-Z]+) (\/[^\s?]*)(?:\?(\S*))?$/.exec(text) ?? [];
  return method === undefined || path === undefined ? undefined : { method, path, query };
}
