import { Agent, request } from "node:http";
import { buffer } from "node:stream/consumers";

const agent = new Agent({ keepAlive: true, timeout: 4_000 });

/** Headers that fetch sends. Some payments are bound to them. */
const LIKE_FETCH = { accept: "*/*", "accept-language": "*", "sec-fetch-mode": "cors", "user-agent": "node" };

/**
 * Sends a POST request as `fetch` does, over kept connections, and reads all of the answer. `fetch` takes 1 ms of CPU more for
 * each request, which made a twentieth of the CPU of the tests that pay.
 */
export function post(
  url: string,
  sent: {
    readonly body: string | Uint8Array;
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
  },
): Promise<Response> {
  const { body, signal } = sent;
  const type = typeof body === "string" ? { "content-type": "text/plain;charset=UTF-8" } : {};
  const headers = {
    ...LIKE_FETCH,
    ...type,
    ...lowerCase(sent.headers),
    "content-length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) => reject(new TypeError("fetch failed", { cause }));
    const options = { method: "POST", agent, headers, ...(signal && { signal }) };
    request(url, options, (answer) => {
      buffer(answer).then((bytes) => {
        const { statusCode: status = 0, rawHeaders } = answer;
        const received = new Headers();
        for (let at = 0; at < rawHeaders.length; at += 2)
          received.append(rawHeaders[at] as string, rawHeaders[at + 1] as string);
        const hasBody = status !== 204 && status !== 304;
        resolve(new Response(hasBody ? bytes : null, { status, headers: received }));
      }, fail);
    })
      .once("error", fail)
      .end(body);
  });
}

const lowerCase = (headers: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
