import { Readable } from "node:stream";
import { type Dispatcher, Pool } from "undici";
import { splitCredentials } from "../../chain/basic-auth.ts";
import type { ResultHeader } from "../../core/result-answer.ts";
import { version } from "../../node/version.ts";
import type { HttpAnswer, HttpOutcome } from "./http-answer.ts";
import type { HttpServer } from "./http-server.ts";

const MAX_CONNECT_MS = 10_000;
/**
 * Idle time after which a kept connection is closed, unless the server names a longer time. It is shorter than the idle
 * time of most servers, which might otherwise close the connection just when a request is sent.
 */
const KEPT_MS = 1_000;
const MAX_ANSWER_HEADER_BYTES = 16_384;

/** One request. Its path is appended to the path of the client's URL. */
export interface HttpMessage {
  readonly method: string;
  /** Path and query that follow the path of the URL, byte for byte; undefined for the URL as it is. */
  readonly target?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
  /** Returns how many bytes of an answer's body are read. */
  readonly bodyLimit: (status: number) => number;
  /** Time for the whole exchange, if `timeoutMs` of the server is for each silence. Default: no limit. */
  readonly wholeMs?: number | undefined;
}

/** Status and headers of an answer, which come before its body. */
export type AnswerHead = Pick<HttpAnswer, "status" | "contentType" | "headers">;

/** Receives an answer while it arrives. */
export interface AnswerSink {
  begin?(head: AnswerHead): void;
  /** Receives bytes of the body. The next bytes are read once the promise resolves. It must not reject. */
  write(bytes: Buffer): Promise<void>;
  /** The time for the whole exchange is over. @returns true if the sink ends the exchange itself, soon */
  overdue?(): boolean;
  /** The exchange was ended early. A write in progress must not wait any longer. */
  stop?(): void;
}

/** An answer whose body comes over time. */
export interface StreamedAnswer {
  readonly status: number;
  readonly headers: readonly ResultHeader[];
  readonly body: Readable;
}

/** One request in progress. */
export interface HttpExchange {
  /** Never rejects. The result is undefined after `abort`. */
  readonly outcome: Promise<HttpOutcome | undefined>;
  /** Ends the request and its connection. */
  abort(): void;
  /**
   * Ends the request and its connection. If the answer has begun, the result is the part that has arrived. Otherwise the
   * result is a timeout with `reason`.
   */
  cut(reason: string): void;
}

/** Sends requests to one server over kept connections. Follows no redirect, and sends nothing twice. */
export class HttpClient {
  readonly #pool: Pool;
  readonly #pathname: string;
  readonly #search: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #timesSilence: boolean;

  constructor(server: HttpServer) {
    const { url, headers } = splitCredentials(server.url);
    const { origin, pathname, search } = new URL(url);
    this.#pathname = pathname;
    this.#search = search;
    this.#headers = {
      ...headers,
      "user-agent": `jobgate/${version}`,
      accept: "*/*",
      "accept-encoding": "identity",
    };
    this.#timeoutMs = server.timeoutMs;
    this.#timesSilence = server.timesSilence === true;
    this.#pool = new Pool(origin, {
      connections: server.concurrency,
      keepAliveTimeout: KEPT_MS,
      maxHeaderSize: MAX_ANSWER_HEADER_BYTES,
      // One timer bounds the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: {
        timeout: Math.min(MAX_CONNECT_MS, server.timeoutMs),
        ...(server.lookup && { lookup: server.lookup }),
        ...(server.socketPath === undefined ? {} : { socketPath: server.socketPath }),
        ...server.tls,
      },
    });
  }

  /**
   * @param onSent called once the request has a connection, and never called without a connection
   * @param sink takes the body of the answer, which the outcome then lacks
   */
  send(message: HttpMessage, onSent: () => void = () => {}, sink?: AnswerSink): HttpExchange {
    const { method, target, headers, body, bodyLimit, wholeMs } = message;
    const timing = { timeoutMs: this.#timeoutMs, timesSilence: this.#timesSilence, wholeMs };
    const exchange = new Exchange({ ...timing, bodyLimit, onSent, sink });
    const options = {
      method: method as Dispatcher.HttpMethod,
      path: this.#pathOf(target),
      headers: { ...this.#headers, ...headers },
      body: body ?? null,
    };
    this.#pool.dispatch(options, exchange);
    return exchange;
  }

  /**
   * Sends a request whose answer is streamed, with the time to the first byte and for each silence.
   * @throws Error when there is no answer; {@link wasSent} returns whether the server may have received the request
   */
  async stream(
    { method, target, headers }: Omit<HttpMessage, "body" | "bodyLimit">,
    body: Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<StreamedAnswer> {
    const [headersTimeout, bodyTimeout] = [this.#timeoutMs, this.#timeoutMs];
    const answer = await this.#pool.request({
      ...{ method: method as Dispatcher.HttpMethod, path: this.#pathOf(target), body: body ?? null, signal },
      ...{ headers: { ...this.#headers, ...headers }, headersTimeout, bodyTimeout },
    });
    const { statusCode: status, body: bytes } = answer;
    // undici waits for as many bytes as Content-Length says, which never come.
    if (isBodiless(status)) bytes.on("error", () => undefined).resume();
    return {
      status,
      headers: headerList(answer.headers),
      body: isBodiless(status) ? Readable.from([]) : bytes,
    };
  }

  #pathOf(target: string | undefined): string {
    return target === undefined
      ? `${this.#pathname}${this.#search}`
      : `${this.#pathname.replace(/\/$/, "")}${target}`;
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
  readonly #sink: AnswerSink | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #wholeTimer: NodeJS.Timeout | undefined;
  readonly #timesSilence: boolean;
  #resolve: (outcome: HttpOutcome | undefined) => void = () => undefined;
  /** Set once the request has a connection. */
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #status = 0;
  #headers: Readonly<Record<string, string | string[] | undefined>> = {};
  readonly #chunks: Buffer[] = [];
  #size = 0;
  /** True while the sink takes bytes. During that time, the gateway itself causes a silence of the connection. */
  #isPouring = false;
  /** Resolves once the sink has taken all bytes so far. */
  #taken: Promise<void> = Promise.resolve();

  constructor(options: {
    readonly timeoutMs: number;
    readonly timesSilence: boolean;
    readonly wholeMs: number | undefined;
    readonly bodyLimit: (status: number) => number;
    readonly onSent: () => void;
    readonly sink: AnswerSink | undefined;
  }) {
    const { timeoutMs, timesSilence, wholeMs } = options;
    this.#bodyLimit = options.bodyLimit;
    this.#timesSilence = timesSilence;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#onSent = options.onSent;
    this.#sink = options.sink;
    const late = (ms: number) => `no whole answer within ${ms / 1000} s`;
    const silent = `nothing for ${timeoutMs / 1000} s`;
    this.#timer = setTimeout(() => {
      if (timesSilence && this.#isPouring) this.#timer.refresh();
      else this.#late(timesSilence ? silent : late(timeoutMs));
    }, timeoutMs);
    this.#wholeTimer =
      wholeMs === undefined ? undefined : setTimeout(() => this.#overdue(late(wholeMs)), wholeMs);
  }

  abort(): void {
    this.#cut(undefined);
  }

  cut(reason: string): void {
    this.#cut(this.#status >= 200 ? this.#read() : { kind: "timed_out", reason });
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
    // Answers with status 1xx come before the answer itself.
    this.#status = status;
    this.#headers = headers;
    if (this.#timesSilence) this.#timer.refresh();
    if (status >= 200) this.#sink?.begin?.(this.#head());
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // The parser passes an empty chunk after each pause. Another pause for that chunk would repeat for ever.
    if (chunk.byteLength === 0) return;
    if (this.#timesSilence) this.#timer.refresh();
    const room = this.#bodyLimit(this.#status) - this.#size;
    this.#size += chunk.byteLength;
    const read = chunk.byteLength > room ? chunk.subarray(0, room) : chunk;
    if (this.#sink === undefined) this.#chunks.push(read);
    else this.#pour(read, this.#sink, controller);
    if (chunk.byteLength > room) this.#cut(this.#read());
  }

  onResponseEnd(): void {
    this.#end(this.#read());
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code ?? error.name;
    // RFC 9110 §8.6: Content-Length of such an answer is the length that an answer with a body would have.
    if (code === "UND_ERR_RES_CONTENT_LENGTH_MISMATCH" && isBodiless(this.#status)) this.#end(this.#read());
    else if (code === "UND_ERR_INVALID_ARG") this.#end({ kind: "invalid", reason: error.message });
    else if (this.#controller === undefined) this.#end({ kind: "unreached", reason });
    else this.#end({ kind: "lost", reason, hasBegun: this.#status >= 200 });
  }

  #head(): AnswerHead {
    return {
      status: this.#status,
      contentType: single(this.#headers["content-type"]),
      headers: headerList(this.#headers),
    };
  }

  #read(): HttpOutcome {
    const answer = {
      ...this.#head(),
      contentEncoding: single(this.#headers["content-encoding"]),
      retryAfter: single(this.#headers["retry-after"]),
      body: Buffer.concat(this.#chunks),
      isCut: this.#size > this.#bodyLimit(this.#status),
    };
    return { kind: "answered", answer };
  }

  /** Reads nothing more until the sink has taken these bytes. */
  #pour(bytes: Buffer, sink: AnswerSink, controller: Dispatcher.DispatchController): void {
    controller.pause();
    this.#isPouring = true;
    this.#taken = sink.write(bytes).then(() => {
      this.#isPouring = false;
      if (this.#isOver) return;
      if (this.#timesSilence) this.#timer.refresh();
      controller.resume();
    });
  }

  #overdue(reason: string): void {
    // The exchange is over, but the sink has not taken all bytes.
    if (this.#isOver) this.#sink?.stop?.();
    else if (this.#sink?.overdue?.() === true) clearTimeout(this.#timer);
    else this.#late(reason);
  }

  #late(reason: string): void {
    this.#cut({ kind: this.#controller === undefined ? "unreached" : "timed_out", reason });
  }

  /** Ends the request before its whole answer has arrived. */
  #cut(outcome: HttpOutcome | undefined): void {
    this.#end(outcome);
    this.#sink?.stop?.();
    this.#controller?.abort(new Error("the request is over"));
  }

  #end(outcome: HttpOutcome | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    void this.#taken.then(() => {
      clearTimeout(this.#wholeTimer);
      this.#resolve(outcome);
    });
  }
}

/** Returns true for a status whose answers have no body, whatever their headers say. */
function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** Codes of errors that occur before a connection is established. */
const NO_CONNECTION = /^(ECONNREFUSED|UND_ERR_CONNECT_TIMEOUT)$|CERT|TLS|SSL|SIGNATURE|SIGNED|UNABLE_TO/;

/** Returns false for an error of {@link HttpClient.stream} after which the server has not seen the request. */
export function wasSent(error: unknown): boolean {
  const { code = "", syscall = "" } = error as NodeJS.ErrnoException;
  return !/^(connect|getaddrinfo)$/.test(syscall) && !NO_CONNECTION.test(code);
}

/** Returns the first of several headers with one name. */
function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

function headerList(headers: Readonly<Record<string, string | string[] | undefined>>): ResultHeader[] {
  return Object.entries(headers).flatMap(([name, values = []]) =>
    [values].flat().map((value): ResultHeader => [name, value]),
  );
}
