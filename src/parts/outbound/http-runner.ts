import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { RunnerConfig } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import type { ResultWriter } from "../../delivery/result-writer.ts";
import type { CallSink, Subscription } from "../../delivery/subscription.ts";
import type {
  Charge,
  ClaimedCall,
  JobResult,
  Lease,
  LeaseOutcome,
  RetryBackoff,
} from "../../store/contract/work-queue.ts";
import type { HttpOutcome } from "./http-answer.ts";
import { type AnswerHead, HttpClient, type HttpExchange, type HttpMessage } from "./http-client.ts";
import type { HttpServer } from "./http-server.ts";
import { Pace } from "./pace.ts";

/** Part of a lease after which it is extended, so that one extension may fail. */
const EXTENSIONS_PER_LEASE = 3;
/** Length of the leases of a server's own jobs: longer than most stalls of a store. */
const SHORT_LEASE_MS = 10_000;
/** Wait before an outcome is reported again to a store that did not answer. */
const MIN_REPORT_WAIT_MS = 100;
const MAX_REPORT_WAIT_MS = 2_000;

/** Codes of errors by which the other side closed the connection. */
const CLOSED_CODES: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

interface LeaseTerms {
  readonly leaseMs: number;
  readonly maxAttempts: number;
  readonly backoff: RetryBackoff;
}

export function leaseTermsOf({ leaseMs, maxAttempts, retryBaseMs, retryMaxMs }: RunnerConfig): LeaseTerms {
  return { leaseMs, maxAttempts, backoff: { baseMs: retryBaseMs, maxMs: retryMaxMs } };
}

/** Outcome of a JobCall, which the request to its server has decided. */
export type RunOutcome =
  | {
      readonly kind: "done";
      readonly result: JobResult | undefined;
      readonly charge: Charge | undefined;
      /** True if the body of the result is the body of the answer, which was stored while it arrived. */
      readonly hasWrittenBody?: true;
    }
  | { readonly kind: "failed"; readonly reason: string; readonly blame: Blame }
  | {
      readonly kind: "retry";
      readonly reason: string;
      /** Default: the backoff. */
      readonly delayMs?: number | undefined;
      readonly blame: Blame;
    }
  /**
   * The connection broke after the request was sent. The server may have received the request, and may have crashed
   * because of it.
   */
  | { readonly kind: "lost"; readonly reason: string }
  /** No connection: the server has not seen the JobCall. */
  | { readonly kind: "unreached"; readonly reason: string };

/** Cause of a failure: this JobCall, or the server as a whole. */
export type Blame = "call" | "target";

/** Protocol in which a server receives JobCalls. */
export interface HttpProtocol {
  ask(call: ClaimedCall): Asked;
}

/** Passes an answer on while it arrives. */
export interface AnswerPassing {
  /** The request is sent. */
  start(request: Pick<HttpExchange, "cut">): void;
  begin(head: AnswerHead): void;
  /** Passes bytes on. Resolves with the bytes to store, once more bytes may come. Must not reject. */
  pass(bytes: Buffer): Promise<Buffer>;
  /** The time for the answer is over. @returns true if the passing ends the request itself, soon */
  overdue(): boolean;
  /** The request was ended early. A pass in progress must not wait any longer. */
  stop(): void;
  /** @param isStored the whole answer is stored */
  end(isStored: boolean): void;
}

/** Request that gives a JobCall to its server. */
export type Asked =
  | {
      readonly kind: "request";
      readonly message: HttpMessage;
      /** True if the body of the answer is stored while it arrives. The outcome then lacks the body. */
      readonly isWritten?: true;
      readonly passing?: AnswerPassing | undefined;
      /** @param now Unix milliseconds */
      readonly read: (outcome: HttpOutcome, now: number) => RunOutcome;
    }
  /** No request, because the outcome of the JobCall is known. */
  | { readonly kind: "decided"; readonly outcome: RunOutcome };

/** A server that runs jobs. It gets each JobCall as a request, and its answer is the result. */
export class HttpRunner implements CallSink {
  readonly carriesOutcomes = true;
  readonly countsStops: boolean;
  /** `host:port`, as an operator knows the server. */
  readonly #host: string;
  readonly #dispatcher: Dispatcher;
  readonly #terms: LeaseTerms;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #client: HttpClient;
  readonly #protocol: HttpProtocol;
  readonly #pace: Pace;
  readonly #subscription: Subscription | undefined;
  /** Requests whose outcomes are not stored yet. */
  readonly #requests = new Map<Pick<HttpExchange, "abort">, Promise<unknown>>();
  readonly #stopping = new AbortController();

  constructor(options: {
    /** Name of the stream, for operators. */
    readonly subscriber: string;
    readonly server: HttpServer;
    /** IDs of the jobs that the runner takes; empty means all. */
    readonly jobIds: readonly bigint[];
    /**
     * True if runners that take all jobs do not get these jobs. JobCalls of these jobs have short leases, so that they
     * are soon made again after a crash.
     */
    readonly reserves?: true;
    /** True if a stop of jobgate uses up the attempt of a request that is in progress, because the server may have received it. */
    readonly countsStops?: true;
    readonly protocol: HttpProtocol;
    readonly dispatcher: Dispatcher;
    readonly terms: LeaseTerms;
    /** Wall clock. */
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    const { subscriber, server, jobIds, dispatcher, logger, reserves = false } = options;
    const { concurrency } = server;
    const leaseMs = reserves ? Math.min(options.terms.leaseMs, SHORT_LEASE_MS) : options.terms.leaseMs;
    this.countsStops = options.countsStops === true;
    this.#host = new URL(server.url).host;
    this.#protocol = options.protocol;
    this.#dispatcher = dispatcher;
    this.#terms = { ...options.terms, leaseMs };
    this.#clock = options.clock;
    this.#logger = logger.child({ subscriber });
    this.#client = new HttpClient(server);
    this.#pace = new Pace({
      concurrency,
      onChange: (capacity) => this.#subscription?.setMaxInFlight(capacity),
    });
    const request = { subscriber, maxInFlight: concurrency, jobIds, ackOnSend: false, reserves, leaseMs };
    this.#subscription = dispatcher.subscribe(request, this);
  }

  /** Number of unfinished JobCalls. */
  get inFlight(): number {
    return this.#subscription?.inFlight ?? 0;
  }

  write(call: ClaimedCall, onWritten: () => void): boolean {
    const { callId, leaseToken } = call;
    const lease: Lease = { callId, leaseToken };
    const asked = this.#protocol.ask(call);
    if (asked.kind === "decided") {
      onWritten();
      this.#track({ abort: () => undefined }, this.#report(asked.outcome, lease));
      return true;
    }
    const writer = asked.isWritten === true ? this.#dispatcher.resultWriter(lease) : undefined;
    const { passing } = asked;
    const sink = writer && {
      begin: (head: AnswerHead) => passing?.begin(head),
      overdue: () => passing?.overdue() === true,
      stop: () => passing?.stop(),
      write: async (bytes: Buffer) => {
        const kept = passing === undefined ? bytes : await passing.pass(bytes);
        await this.#pour(kept, writer, lease, () => request.abort());
      },
    };
    const request: HttpExchange = this.#client.send(asked.message, onWritten, sink);
    passing?.start(request);
    this.#track(request, this.#finish(request, lease, asked, writer));
    return true;
  }

  #track(request: Pick<HttpExchange, "abort">, work: Promise<unknown>): void {
    this.#requests.set(
      request,
      work.finally(() => this.#requests.delete(request)),
    );
  }

  endForShutdown(): void {
    this.#pace.stop();
  }

  /** Takes no more JobCalls, and resolves once the JobCalls in progress are finished. */
  async retire(): Promise<void> {
    this.#pace.stop();
    if (this.#subscription === undefined) return this.stop();
    this.#subscription.setMaxInFlight(0);
    await Promise.all(this.#requests.values());
    this.#dispatcher.unsubscribe(this.#subscription);
    await this.stop();
  }

  /** Ends the requests in progress, whose leases were already released. */
  async stop(): Promise<void> {
    this.#pace.stop();
    this.#stopping.abort();
    for (const request of this.#requests.keys()) request.abort();
    await Promise.all(this.#requests.values());
    await this.#client.close();
  }

  /** Keeps the lease until the request has ended and the store has its outcome. Never rejects. */
  async #finish(
    request: HttpExchange,
    lease: Lease,
    { read, passing }: Extract<Asked, { kind: "request" }>,
    writer: ResultWriter | undefined,
  ): Promise<void> {
    const { callId } = lease;
    let isStored = false;
    const { leaseMs } = this.#terms;
    const timer = setInterval(() => {
      this.#dispatcher.extend(lease, leaseMs).then(
        (held) => {
          if (held === "done") return;
          request.abort();
          this.#logger.warn({ callId }, "lost the lease of a JobCall: its request is aborted");
        },
        (error: unknown) => {
          this.#logger.warn({ err: error, callId }, "could not extend the lease of a JobCall");
        },
      );
    }, leaseMs / EXTENSIONS_PER_LEASE);
    try {
      const ended = await request.outcome;
      if (ended === undefined) return;
      const outcome = read(ended, this.#clock());
      this.#setPace(outcome);
      const reported = await this.#report(outcome, lease, writer);
      isStored = reported === "done" && outcome.kind === "done" && outcome.hasWrittenBody === true;
    } finally {
      clearInterval(timer);
      passing?.end(isStored);
    }
  }

  #setPace(outcome: RunOutcome): void {
    const wasDown = this.#pace.isDown;
    const speaksForTarget = outcome.kind === "done" || ("blame" in outcome && outcome.blame === "call");
    if (speaksForTarget) this.#pace.succeeded();
    else this.#pace.failed({ reached: outcome.kind !== "unreached" });
    if (wasDown && !this.#pace.isDown) this.#logger.info("a server answers again");
    if (!wasDown && this.#pace.isDown)
      this.#logger.warn({ outcome: summary(outcome) }, "a server is down: it gets one JobCall at a time");
  }

  /** @returns undefined for an outcome that the store did not have to answer, and at a stop */
  async #report(outcome: RunOutcome, lease: Lease, writer?: ResultWriter): Promise<LeaseOutcome | undefined> {
    const dispatcher = this.#dispatcher;
    switch (outcome.kind) {
      case "done":
        return this.#untilStored(lease, () => this.#ack(outcome, lease, writer));
      case "failed":
        return this.#untilStored(lease, () => dispatcher.fail(lease, outcome.reason));
      case "retry": {
        const { delayMs, reason } = outcome;
        const { maxAttempts, backoff } = this.#terms;
        const retry = { delayMs, maxAttempts, backoff, reason };
        return this.#untilStored(lease, () => dispatcher.retry(lease, retry));
      }
      case "lost":
        dispatcher.giveBack(lease, {
          excused: false,
          wasAlone: true,
          reason: CLOSED_CODES.has(outcome.reason)
            ? `connection closed by ${this.#host} before a whole answer`
            : `connection to ${this.#host} failed before a whole answer: ${outcome.reason}`,
        });
        return undefined;
      case "unreached":
        dispatcher.giveBack(lease, {
          excused: true,
          reason: `no connection to ${this.#host}: ${outcome.reason}`,
        });
        return undefined;
    }
  }

  async #ack(
    { result, charge, hasWrittenBody }: Extract<RunOutcome, { kind: "done" }>,
    lease: Lease,
    writer: ResultWriter | undefined,
  ): Promise<LeaseOutcome> {
    if (writer === undefined || result === undefined || hasWrittenBody !== true)
      return this.#dispatcher.ack(lease, result, charge);
    const { outcome, stored } = await writer.end();
    return stored === undefined ? outcome : this.#dispatcher.ack(lease, { ...result, ...stored }, charge);
  }

  /** Stores a part of an answer's body, and ends the request if its lease is lost. */
  async #pour(bytes: Buffer, writer: ResultWriter, lease: Lease, abort: () => void): Promise<void> {
    let rest: Uint8Array = bytes;
    const outcome = await this.#untilStored(lease, () => {
      // The writer keeps the bytes that the store did not take.
      const next = rest;
      rest = new Uint8Array();
      return writer.write(next);
    });
    if (outcome !== "done") abort();
  }

  /** Repeats a request that the store could not answer. The lease is extended meanwhile. @returns undefined at a stop */
  async #untilStored(lease: Lease, ask: () => Promise<LeaseOutcome>): Promise<LeaseOutcome | undefined> {
    const { signal } = this.#stopping;
    for (
      let waitMs = MIN_REPORT_WAIT_MS;
      !signal.aborted;
      waitMs = Math.min(waitMs * 2, MAX_REPORT_WAIT_MS)
    ) {
      try {
        const outcome = await ask();
        if (outcome !== "done")
          this.#logger.warn({ callId: lease.callId, outcome }, "the outcome of a JobCall came too late");
        return outcome;
      } catch (error) {
        this.#logger.warn({ err: error, callId: lease.callId }, "could not store the outcome of a JobCall");
        await sleep(waitMs, undefined, { signal }).catch(() => undefined);
      }
    }
    return undefined;
  }
}

/** Describes an outcome for the log, without anything from the server's answer but its status. */
function summary(outcome: RunOutcome): string {
  const reason = "reason" in outcome ? outcome.reason : outcome.kind;
  return reason.split(":", 1)[0] ?? "";
}
