import type { ResultHeader } from "../../core/result-answer.ts";

/** Base of the URLs of an API at a Unix socket. */
const SOCKET_URL = "http://localhost";

/** Maps URLs of an API to the gateway's URLs. */
export class ApiLinks {
  readonly #url: string;
  readonly #publicUrl: string;

  /** @param url URL of the API, without a slash at its end */
  constructor(url: string, publicUrl: string) {
    this.#url = url.startsWith("unix:") ? SOCKET_URL : url;
    this.#publicUrl = publicUrl.replace(/\/$/, "");
  }

  /**
   * Rewrites a `Location` within the API to the gateway's URL. Other headers, and any other `Location`, stay unchanged.
   * @param target path and query of the request, against which a relative `Location` is resolved
   */
  toPublic(headers: readonly ResultHeader[], target: string): ResultHeader[] {
    return headers.map(([name, value]) => [
      name,
      name === "location" ? this.#locationOf(value, target) : value,
    ]);
  }

  #locationOf(location: string, target: string): string {
    const resolved = URL.parse(location, `${this.#url}${target}`)?.href;
    if (resolved === undefined || !resolved.startsWith(this.#url)) return location;
    const rest = resolved.slice(this.#url.length);
    return /^(?:$|[/?#])/.test(rest) ? `${this.#publicUrl}${rest}` : location;
  }
}
