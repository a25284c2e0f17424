import type { LookupFunction } from "node:net";
import { type Dispatcher, Pool } from "undici";
import { splitCredentials } from "../../chain/basic-auth.ts";
import { version } from "../../node/version.ts";
import type { HttpOutcome } from "./http-answer.ts";

const MAX_CONNECT_MS = 10_000;
/**
 * Idle time after which a kept connection is closed, unless the server names a longer one: below that of most servers,
 * which else might close it just when a request is sent.
 */
const KEPT_MS = 1_000;
const MAX_ANSWER_HEADER_BYTES = 16_384;

/** One request in progress. */
export interface HttpExchange {
  /** Never rejects. Undefined after `abort`. */
  readonly outcome: Promise<HttpOutcome | undefined>;
  /** Ends the request and its connection. */
  abort(): void;
}

/** Sends requests to one URL over kept connections. Follows no redirect, and sends nothing twice. */
export class HttpClient {
  readonly #pool: Pool;
  readonly #path: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;

  constructor(target: {
    readonly url: string;
    readonly concurrency: number;
    /** Time for one request, its whole answer included. */
    readonly timeoutMs: number;
    /** Resolves the name of the host, once for each connection. Default: the system's. */
    readonly lookup?: LookupFunction | undefined;
  }) {
    const { url, headers } = splitCredentials(target.url);
    const { origin, pathname, search } = new URL(url);
    this.#path = `${pathname}${search}`;
    this.#headers = {
      ...headers,
      "user-agent": `jobgate/${version}`,
      accept: "*/*",
      "accept-encoding": "identity",
    };
    this.#timeoutMs = target.timeoutMs;
    this.#pool = new Pool(origin, {
      connections: target.concurrency,
      keepAliveTimeout: KEPT_MS,
      maxHeaderSize: MAX_ANSWER_HEADER_BYTES,
      // One timer bounds the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: {
        timeout: Math.min(MAX_CONNECT_MS, target.timeoutMs),
        ...(target.lookup && { lookup: target.lookup }),
      },
    });
  }

  /** @param onSent called once the request has a connection; never, if there is none */
  post(
    {
      headers,
      body,
      bodyLimit,
    }: {
      readonly headers: Readonly<Record<string, string>>;
      readonly body: Uint8Array;
      /** Returns how many bytes of an answer's body are read. */
      readonly bodyLimit: (status: number) => number;
    },
    onSent: () => void = () => {},
  ): HttpExchange {
    const exchange = new Exchange({ timeoutMs: this.#timeoutMs, bodyLimit, onSent });
    const options = {
      method: "POST",
      path: this.#path,
      headers: { ...this.#headers, ...headers },
      body,
    } as const;
    this.#pool.dispatch(options, exchange);
    return exchange;
  }

  /** Closes the connections. Requests in progress must have ended. */
  close(): Promise<void> {
    return this.#pool.destroy();
  }
}

/** Collects the part of one answer that is read. */
class Exchange implements HttpExchange, Dispatcher.DispatchHandler {
  readonly outcome: Promise<HttpOutcome | undefined>;
  readonly #bodyLimit: (status: number) => number;
  readonly #onSent: () => void;
  readonly #timer: NodeJS.Timeout;
  #resolve: (outcome: HttpOutcome | undefined) => void = () => undefined;
  /** Set once the request has a connection. */
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #status = 0;
  #headers: Readonly<Record<string, string | string[] | undefined>> = {};
  readonly #chunks: Buffer[] = [];
  #size = 0;

  constructor(options: {
    readonly timeoutMs: number;
    readonly bodyLimit: (status: number) => number;
    readonly onSent: () => void;
  }) {
    const { timeoutMs } = options;
    this.#bodyLimit = options.bodyLimit;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#onSent = options.onSent;
    this.#timer = setTimeout(() => {
      const reason = `no whole answer within ${timeoutMs / 1000} s`;
      this.#cut({ kind: this.#controller === undefined ? "unreached" : "timed_out", reason });
    }, timeoutMs);
  }

  abort(): void {
    this.#cut(undefined);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isOver) controller.abort(new Error("the request is over"));
    else this.#onSent();
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    // 1xx come before the answer.
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = this.#bodyLimit(this.#status) - this.#size;
    this.#size += chunk.byteLength;
    this.#chunks.push(chunk.byteLength > room ? chunk.subarray(0, room) : chunk);
    if (chunk.byteLength > room) this.#cut(this.#read());
  }

  onResponseEnd(): void {
    this.#end(this.#read());
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code ?? error.name;
    if (code === "UND_ERR_INVALID_ARG") this.#end({ kind: "invalid", reason: error.message });
    else this.#end({ kind: this.#controller === undefined ? "unreached" : "lost", reason });
  }

  #read(): HttpOutcome {
    const answer = {
      status: this.#status,
      contentType: single(this.#headers["content-type"]),
      contentEncoding: single(this.#headers["content-encoding"]),
      retryAfter: single(this.#headers["retry-after"]),
      headers: Object.entries(this.#headers).flatMap(([name, values = []]) =>
        [values].flat().map((value) => [name, value] as const),
      ),
      body: Buffer.concat(this.#chunks),
      isCut: this.#size > this.#bodyLimit(this.#status),
    };
    return { kind: "answered", answer };
  }

  /** Ends the request before its whole answer has arrived. */
  #cut(outcome: HttpOutcome | undefined): void {
    this.#end(outcome);
    this.#controller?.abort(new Error("the request is over"));
  }

  #end(outcome: HttpOutcome | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#resolve(outcome);
  }
}

/** Returns the first of several headers with one name. */
function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
