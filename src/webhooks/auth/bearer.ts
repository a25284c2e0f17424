import { equalInConstantTime } from "../../constant-time.ts";
import type { HttpRequest } from "../../http/http-request.ts";

/** RFC 6750: `Authorization: Bearer <token>`, sent once. The scheme's letter case does not matter, the token's does. */
export function hasBearerToken(request: HttpRequest, secret: string): boolean {
  const values = request.headerValues("authorization");
  const token = /^bearer +(.+)$/i.exec(values[0] ?? "")?.[1];
  return values.length === 1 && token !== undefined && equalInConstantTime(token, secret);
}
