import type { HttpRequest } from "../../http/request.ts";

/** The value of a header that was sent once and is not empty. `name` is lower case. */
export function singleHeader(request: HttpRequest, name: string): string | undefined {
  const values = request.headerValues(name);
  return values.length === 1 && values[0] !== "" ? values[0] : undefined;
}
