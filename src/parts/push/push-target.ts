import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import { type SigningKey, toSigningKey } from "../../core/standard-webhooks.ts";
import type { Dispatcher } from "../../delivery/dispatcher.ts";
import type { CallSink, Subscription } from "../../delivery/subscription.ts";
import type { ClaimedCall, Lease, LeaseOutcome, RetryBackoff } from "../../store/contract/work-queue.ts";
import { HttpClient, type HttpExchange } from "../outbound/http-client.ts";
import { signatureHeaders, toCloudEvent } from "./cloud-event.ts";
import type { PushTargetConfig } from "./config.ts";
import { Pace } from "./pace.ts";
import { bodyLimit, type PushOutcome, readOutcome } from "./push-answer.ts";

/** Part of a lease after which it is extended, so that one extension may fail. */
const EXTENSIONS_PER_LEASE = 3;
/** Wait before an outcome is reported again to a store that did not answer. */
const MIN_REPORT_WAIT_MS = 100;
const MAX_REPORT_WAIT_MS = 2_000;

/** Codes of errors by which the other side closed the connection. */
const CLOSED_CODES: ReadonlySet<string> = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

export interface LeaseTerms {
  readonly leaseMs: number;
  readonly maxAttempts: number;
  readonly backoff: RetryBackoff;
}

/** A runner that gets each JobCall as a request to its URL, and answers with the result. */
export class PushTarget implements CallSink {
  readonly carriesOutcomes = true;
  /** `host:port`, as an operator knows the target. */
  readonly #host: string;
  readonly #dispatcher: Dispatcher;
  readonly #terms: LeaseTerms;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #client: HttpClient;
  readonly #keys: readonly SigningKey[];
  readonly #pace: Pace;
  readonly #subscription: Subscription | undefined;
  /** Requests until their outcomes are stored. */
  readonly #requests = new Map<HttpExchange, Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(options: {
    readonly config: PushTargetConfig;
    readonly dispatcher: Dispatcher;
    readonly terms: LeaseTerms;
    /** Wall clock. */
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    const { config, dispatcher, logger } = options;
    const { url, concurrency, timeoutMs, jobIds } = config;
    this.#host = new URL(url).host;
    const subscriber = `push to ${new URL(url).origin}`;
    this.#dispatcher = dispatcher;
    this.#terms = options.terms;
    this.#clock = options.clock;
    this.#logger = logger.child({ subscriber });
    this.#client = new HttpClient({ url, concurrency, timeoutMs });
    this.#keys = config.secrets.flatMap((secret) => toSigningKey(secret) ?? []);
    this.#pace = new Pace({
      concurrency,
      onChange: (capacity) => this.#subscription?.setMaxInFlight(capacity),
    });
    const request = { subscriber, maxInFlight: concurrency, jobIds, ackOnSend: false };
    this.#subscription = dispatcher.subscribe(request, this);
  }

  write(call: ClaimedCall, onWritten: () => void): boolean {
    const event = toCloudEvent(call, this.#terms.leaseMs);
    const signature = signatureHeaders(event, this.#keys, this.#clock());
    const headers = { ...event.headers, ...signature };
    const maxBytes = this.#dispatcher.maxResultBytes(event.job);
    const limit = (status: number) => bodyLimit(status, maxBytes);
    const request = this.#client.post({ headers, body: event.body, bodyLimit: limit }, onWritten);
    const { callId, leaseToken } = call;
    const finished = this.#finish(request, { callId, leaseToken }).finally(() =>
      this.#requests.delete(request),
    );
    this.#requests.set(request, finished);
    return true;
  }

  endForShutdown(): void {
    this.#pace.stop();
  }

  /** Takes no more JobCalls, and resolves once those in progress are finished. */
  async retire(): Promise<void> {
    this.#pace.stop();
    if (this.#subscription === undefined) return this.stop();
    this.#subscription.setMaxInFlight(0);
    await Promise.all(this.#requests.values());
    this.#dispatcher.unsubscribe(this.#subscription);
    await this.stop();
  }

  /** Ends the requests in progress, whose leases are given back already. */
  async stop(): Promise<void> {
    this.#pace.stop();
    this.#stopping.abort();
    for (const request of this.#requests.keys()) request.abort();
    await Promise.all(this.#requests.values());
    await this.#client.close();
  }

  /** Keeps the lease until the request has ended and the store has its outcome. Never rejects. */
  async #finish(request: HttpExchange, lease: Lease): Promise<void> {
    const { leaseMs } = this.#terms;
    const timer = setInterval(() => {
      this.#dispatcher.extend(lease, leaseMs).then(
        (held) => {
          if (held === "done") return;
          request.abort();
          this.#logger.warn(
            { callId: lease.callId },
            "Lost the lease of a pushed JobCall: its request is aborted",
          );
        },
        (error: unknown) => {
          this.#logger.warn(
            { err: error, callId: lease.callId },
            "Could not extend the lease of a pushed JobCall",
          );
        },
      );
    }, leaseMs / EXTENSIONS_PER_LEASE);
    try {
      const ended = await request.outcome;
      if (ended === undefined) return;
      const outcome = readOutcome(ended, this.#clock());
      this.#setPace(outcome);
      await this.#report(outcome, lease);
    } finally {
      clearInterval(timer);
    }
  }

  #setPace(outcome: PushOutcome): void {
    const wasDown = this.#pace.isDown;
    const speaksForTarget = outcome.kind === "done" || ("blame" in outcome && outcome.blame === "call");
    if (speaksForTarget) this.#pace.succeeded();
    else this.#pace.failed({ reached: outcome.kind !== "unreached" });
    if (wasDown && !this.#pace.isDown) this.#logger.info("Push target answers again");
    if (!wasDown && this.#pace.isDown)
      this.#logger.warn({ outcome: summary(outcome) }, "Push target is down: trying one JobCall at a time");
  }

  async #report(outcome: PushOutcome, lease: Lease): Promise<void> {
    const dispatcher = this.#dispatcher;
    switch (outcome.kind) {
      case "done":
        return this.#untilStored(lease, () => dispatcher.ack(lease, outcome.result));
      case "failed":
        return this.#untilStored(lease, () => dispatcher.fail(lease, outcome.reason));
      case "retry": {
        const { delayMs, reason } = outcome;
        const { maxAttempts, backoff } = this.#terms;
        const retry = { delayMs, maxAttempts, backoff, reason };
        return this.#untilStored(lease, () => dispatcher.retry(lease, retry));
      }
      case "lost":
        return dispatcher.giveBack(lease, {
          excused: false,
          wasAlone: true,
          reason: CLOSED_CODES.has(outcome.reason)
            ? `connection closed by ${this.#host} before a whole answer`
            : `connection to ${this.#host} failed before a whole answer: ${outcome.reason}`,
        });
      case "unreached":
        return dispatcher.giveBack(lease, {
          excused: true,
          reason: `no connection to ${this.#host}: ${outcome.reason}`,
        });
    }
  }

  /** Repeats a request that the store could not answer. The lease is extended meanwhile. */
  async #untilStored(lease: Lease, ask: () => Promise<LeaseOutcome>): Promise<void> {
    const { signal } = this.#stopping;
    for (
      let waitMs = MIN_REPORT_WAIT_MS;
      !signal.aborted;
      waitMs = Math.min(waitMs * 2, MAX_REPORT_WAIT_MS)
    ) {
      try {
        const outcome = await ask();
        if (outcome !== "done")
          this.#logger.warn({ callId: lease.callId, outcome }, "Outcome of a pushed JobCall came too late");
        return;
      } catch (error) {
        this.#logger.warn(
          { err: error, callId: lease.callId },
          "Could not store the outcome of a pushed JobCall",
        );
        await sleep(waitMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }
}

/** Describes an outcome for the log, without anything from the target's answer but its status. */
function summary(outcome: PushOutcome): string {
  const reason = "reason" in outcome ? outcome.reason : outcome.kind;
  return reason.split(":", 1)[0] ?? "";
}
