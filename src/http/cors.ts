import type { HttpRequest } from "./request.ts";
import type { HeaderPairs, HttpResponse } from "./response.ts";

/** Time for which a browser may cache the answer to a preflight: the longest that Chromium accepts. */
const PREFLIGHT_SECS = "7200";

/** Rights of web pages. */
export interface PageAccess {
  /** Origins as browsers send them; `*` for all. */
  readonly origins: readonly string[];
  /** Names of the request headers that a page may send. Default: the names that the page requests. */
  readonly allows?: string;
  /** Names of the response headers that a page may read. */
  readonly exposes: string;
}

/**
 * Cross-origin access of web pages to a listener (CORS, in the Fetch standard), never with credentials. The headers are
 * built once for each configuration, because every answer has them.
 */
export class Cors {
  #allows: string | undefined;
  /** Headers for origins that may not call, and for requests without one. */
  #headers: HeaderPairs = [];
  #headersByOrigin: ReadonlyMap<string, HeaderPairs> = new Map();

  constructor(access: PageAccess) {
    this.allow(access);
  }

  /** Replaces the origins that may call, the headers that they may send, and the headers that they may read. */
  allow({ origins, allows, exposes }: PageAccess): void {
    this.#allows = allows;
    const exposed = ["access-control-expose-headers", exposes] as const;
    const allowed = (origin: string) => ["access-control-allow-origin", origin] as const;
    // A cache must not give one origin's answer to another.
    const vary = ["vary", "Origin"] as const;
    const isOpenToAll = origins.includes("*");
    this.#headers = isOpenToAll ? [allowed("*"), exposed] : [vary, exposed];
    this.#headersByOrigin = new Map(
      isOpenToAll ? [] : origins.map((origin) => [origin, [allowed(origin), vary, exposed]]),
    );
  }

  /** Returns the headers of every answer to a request from this origin. */
  headersFor(origin: string | undefined): HeaderPairs {
    return (origin === undefined ? undefined : this.#headersByOrigin.get(origin)) ?? this.#headers;
  }

  /** Answers OPTIONS with the headers that {@link headersFor} leaves out. */
  preflight({ headers }: Pick<HttpRequest, "headers">, methods: string): HttpResponse {
    const allows = this.#allows ?? headers["access-control-request-headers"];
    return {
      status: 204,
      headers: {
        allow: methods,
        "access-control-allow-methods": methods,
        ...(allows !== undefined && { "access-control-allow-headers": allows }),
        "access-control-max-age": PREFLIGHT_SECS,
        ...(this.#allows === undefined && { vary: "Access-Control-Request-Headers" }),
        "cache-control": "no-store",
      },
      body: "",
    };
  }
}
