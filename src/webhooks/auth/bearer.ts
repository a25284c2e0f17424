import { equalInConstantTime } from "../../constant-time.ts";
import { bearerToken } from "../../http/bearer-token.ts";
import type { HttpRequest } from "../../http/http-request.ts";

/** `Authorization: Bearer <token>`, sent once, with the configured token in the configured letter case. */
export function hasBearerToken(request: HttpRequest, secret: string): boolean {
  const token = bearerToken(request);
  return token !== undefined && equalInConstantTime(token, secret);
}
