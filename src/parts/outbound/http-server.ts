import type { LookupFunction } from "node:net";

/** PEM texts. */
export interface ServerTls {
  /** Authorities of the server, instead of the system's. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** A server, and the terms of requests to it. */
export interface HttpServer {
  readonly url: string;
  /** Most requests in progress. */
  readonly concurrency: number;
  /** Time for one request, its whole answer included. */
  readonly timeoutMs: number;
  /** True if `timeoutMs` limits the time to the first byte of the answer, and each silence after it. */
  readonly timesSilence?: true;
  /** Path of a Unix socket to connect to. */
  readonly socketPath?: string | undefined;
  /** Client certificate of jobgate, and authorities of the server. */
  readonly tls?: ServerTls | undefined;
  /** Resolves the name of the host, once for each connection. Default: the system's. */
  readonly lookup?: LookupFunction | undefined;
}

/** Returns the place of a server at a URL or `unix:PATH`. */
export function placeOf(url: string): Pick<HttpServer, "url" | "socketPath"> {
  return url.startsWith("unix:")
    ? { url: "http://localhost", socketPath: url.slice("unix:".length) }
    : { url };
}
