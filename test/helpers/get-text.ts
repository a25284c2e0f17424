import { type IncomingHttpHeaders, request } from "node:http";
import { text } from "node:stream/consumers";

/** Raw answer to a GET, without decoding or defaults. */
export interface TextAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** @param path sent unchanged, unlike by `fetch`; default: the URL's path */
export function getText(
  url: string,
  headers: Record<string, string> = {},
  path?: string,
): Promise<TextAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { headers, ...(path === undefined ? {} : { path }) }, (incoming) => {
      const { statusCode: status = 0, headers } = incoming;
      text(incoming).then((body) => resolve({ status, headers, body }), reject);
    });
    outgoing.on("error", reject).end();
  });
}
