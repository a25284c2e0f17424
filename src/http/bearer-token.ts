import type { HttpRequest } from "./request.ts";

/**
 * RFC 6750: the token of `Authorization: Bearer <token>`, if that header was sent once and so.
 * The scheme's letter case does not matter.
 */
export function bearerToken(request: HttpRequest): string | undefined {
  const values = request.headerValues("authorization");
  return values.length === 1 ? /^bearer +(\S+)$/i.exec(values[0] ?? "")?.[1] : undefined;
}
