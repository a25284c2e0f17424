import { equalInConstantTime } from "../../constant-time.ts";
import type { HttpRequest } from "../../http/http-request.ts";

/** The key alone in a header, sent once. `header` is lower case. */
export function hasApiKey(request: HttpRequest, header: string, secret: string): boolean {
  const values = request.headerValues(header);
  return values.length === 1 && values[0] !== undefined && equalInConstantTime(values[0], secret);
}
