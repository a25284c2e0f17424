import { setTimeout as sleep } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type ServiceError, status } from "@grpc/grpc-js";
import pLimit, { type LimitFunction } from "p-limit";
import type { Logger } from "pino";
import { type JobCall, LeaseStatus } from "../../gen/jobgate/v1/runner_pb.ts";
import { RunnerConnection } from "./connection.ts";
import { LeaseKeeper } from "./lease-keeper.ts";

/** One delivery of a JobCall; docs/writing-a-runner.md describes its fields. */
export type Delivery = Pick<JobCall, "callId" | "jobId" | "serviceId" | "body" | "metadata" | "attempt">;

/** Result of working on a delivery. */
export type Outcome =
  | { readonly kind: "done"; readonly body: Uint8Array; readonly contentType: string }
  /** Deliver again, after the backoff that jobgate is configured with. */
  | { readonly kind: "retry"; readonly reason: string }
  /** Make it a dead letter. */
  | { readonly kind: "fail"; readonly reason: string };

/** Thrown when jobgate refuses this subscriber for good. The message is jobgate's. */
export class SubscriptionRefused extends Error {
  override readonly name = "SubscriptionRefused";
}

const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;
/** Codes after which another try would get the same answer. */
const FINAL_CODES: readonly number[] = [
  ...[status.UNAUTHENTICATED, status.PERMISSION_DENIED],
  ...[status.INVALID_ARGUMENT, status.UNIMPLEMENTED],
];
/** Codes that leave open whether the request arrived, or say that it was not served: asking again is safe. */
const TRANSIENT_CODES: readonly number[] = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED];

/**
 * Subscribes, works on each JobCall while keeping its lease, and reports the outcome. Subscribes again, with backoff,
 * whenever the stream ends.
 */
export class Worker {
  readonly #address: string;
  readonly #subscriber: string;
  readonly #concurrency: number;
  readonly #jobIds: readonly bigint[];
  readonly #work: (delivery: Delivery, lost: AbortSignal) => Promise<Outcome>;
  readonly #logger: Logger;
  readonly #connection: RunnerConnection;
  /** Bounds work across streams: a new stream may bring work before that of the last one is over. */
  readonly #limit: LimitFunction;
  readonly #held = new Map<LeaseKeeper, Promise<void>>();
  readonly #stopping = new AbortController();
  #endStream = (): void => undefined;

  constructor(options: {
    /** `host:port` or `unix:PATH`, in plaintext. */
    readonly address: string;
    /** Bearer token. */
    readonly token?: string;
    /** At most 128 characters. */
    readonly subscriber: string;
    /** Most deliveries worked on at once. */
    readonly concurrency: number;
    /** Only these jobs; empty means all. */
    readonly jobIds: readonly bigint[];
    /** Must not throw. Its outcome is ignored after `lost` aborted. */
    readonly work: (delivery: Delivery, lost: AbortSignal) => Promise<Outcome>;
    readonly logger: Logger;
  }) {
    this.#address = options.address;
    this.#subscriber = options.subscriber;
    this.#concurrency = options.concurrency;
    this.#jobIds = options.jobIds;
    this.#work = options.work;
    this.#logger = options.logger;
    this.#connection = new RunnerConnection(options);
    this.#limit = pLimit(options.concurrency);
  }

  /** Resolves after {@link stop} or {@link kill}, once all deliveries are over. @throws SubscriptionRefused */
  async run(): Promise<void> {
    try {
      await this.#subscribeUntilStopped();
    } finally {
      await Promise.all(this.#held.values());
      this.#connection.close();
    }
  }

  /** Begins nothing new, and ends once all deliveries in progress are finished. */
  stop(): void {
    this.#stopping.abort();
    if (this.#held.size === 0) this.#endStream();
  }

  /** Gives up the deliveries in progress: jobgate hands them to the next subscriber. */
  kill(): void {
    this.stop();
    for (const lease of this.#held.keys()) lease.giveUp();
  }

  async #subscribeUntilStopped(): Promise<void> {
    const address = this.#address;
    const { signal } = this.#stopping;
    let backoffMs = MIN_BACKOFF_MS;
    while (!signal.aborted) {
      const error = await this.#subscribe(() => {
        backoffMs = MIN_BACKOFF_MS;
        this.#logger.info({ address }, "subscribed");
      });
      if (signal.aborted) break;
      if (error !== undefined && FINAL_CODES.includes(error.code))
        throw new SubscriptionRefused(error.details);
      const reason = error?.details ?? "the stream ended";
      this.#logger.warn({ address, reason }, "not subscribed; trying again");
      for (const lease of this.#held.keys()) void lease.renew();
      await sleep(Math.random() * backoffMs, undefined, { signal }).catch(() => undefined);
      backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS);
    }
  }

  /** Resolves when the stream has ended, with the error that ended it. */
  #subscribe(onConnected: () => void): Promise<ServiceError | undefined> {
    return new Promise((resolve) => {
      const stream = this.#connection.subscribe({
        subscriber: this.#subscriber,
        maxInFlight: this.#concurrency,
        jobIds: [...this.#jobIds],
      });
      this.#endStream = () => stream.cancel();
      stream.once("metadata", onConnected);
      stream.on("data", (call: JobCall) => this.#take(call));
      stream.once("error", (error: ServiceError) => resolve(error));
      stream.once("end", () => resolve(undefined));
    });
  }

  #take(call: JobCall): void {
    // Handing it back now would cost it an attempt; it moves on by itself when the stream ends.
    if (this.#stopping.signal.aborted) return;
    const expiresAtMs = call.leaseExpiresAt ? timestampMs(call.leaseExpiresAt) : 0;
    const lease = new LeaseKeeper({ extend: () => this.#connection.extend(call), expiresAtMs });
    const finished = this.#limit(() => this.#handle(call, lease.lost)).finally(() => {
      lease.letGo();
      this.#held.delete(lease);
      if (this.#stopping.signal.aborted && this.#held.size === 0) this.#endStream();
    });
    this.#held.set(lease, finished);
  }

  async #handle(call: JobCall, lost: AbortSignal): Promise<void> {
    const { callId, attempt } = call;
    const log = this.#logger.child({ callId: String(callId), attempt });
    if (lost.aborted) return;
    const outcome = await this.#work(call, lost);
    if (lost.aborted) return log.warn("lease lost; the JobCall goes to the next subscriber");
    const fields = { outcome: outcome.kind, ...("reason" in outcome ? { reason: outcome.reason } : {}) };
    try {
      const leaseStatus = await untilAnswered(() => this.#finish(call, outcome), lost);
      if (leaseStatus === LeaseStatus.DONE) log.info(fields, "finished");
      else log.warn(fields, "finished too late: the lease was lost, or the JobCall was finished before");
    } catch (error) {
      log.error({ err: error }, "jobgate did not take the outcome; the JobCall comes again");
    }
  }

  #finish(call: JobCall, outcome: Outcome): Promise<LeaseStatus> {
    if (outcome.kind === "done") return this.#connection.ack(call, outcome);
    return this.#connection.nack(call, { case: outcome.kind, value: { reason: outcome.reason } });
  }
}

async function untilAnswered(ask: () => Promise<LeaseStatus>, lost: AbortSignal): Promise<LeaseStatus> {
  for (let delayMs = MIN_BACKOFF_MS; ; delayMs = Math.min(delayMs * 2, MAX_BACKOFF_MS)) {
    try {
      return await ask();
    } catch (error) {
      if (!TRANSIENT_CODES.includes((error as ServiceError).code) || lost.aborted) throw error;
    }
    await sleep(delayMs, undefined, { signal: lost }).catch(() => undefined);
  }
}
