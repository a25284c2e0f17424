import { setTimeout as sleep } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type ServiceError, status } from "@grpc/grpc-js";
import pLimit from "p-limit";
import type { Logger } from "pino";
import { type JobCall, LeaseStatus } from "../../gen/jobgate/v1/runner_pb.ts";
import { connectRunner, type RunnerAddress } from "./connection.ts";
import { type KeptLease, keepLease } from "./lease-keeper.ts";

/** One delivery of a JobCall; docs/writing-a-runner.md says what is in it. */
export type Delivery = Pick<JobCall, "callId" | "jobId" | "serviceId" | "body" | "metadata" | "attempt">;

/** What became of a delivery. */
export type Outcome =
  | { readonly kind: "done"; readonly body: Uint8Array; readonly contentType: string }
  /** Again after the backoff that jobgate is configured with. */
  | { readonly kind: "retry"; readonly reason: string }
  /** Never again: a dead letter. */
  | { readonly kind: "fail"; readonly reason: string };

/** jobgate will not have this subscriber, however often it asks. The message is jobgate's. */
export class SubscriptionRefused extends Error {
  override readonly name = "SubscriptionRefused";
}

/** A subscriber that works. */
export interface Worker {
  /** Resolves after {@link Worker.stop} or {@link Worker.kill}; rejects with SubscriptionRefused. */
  readonly ended: Promise<void>;
  /** Begins nothing new, and ends once all that was begun is finished. */
  stop(): void;
  /** Gives up what was begun: jobgate hands it to the next subscriber. */
  kill(): void;
}

const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 5_000;
/** Trying again would give the same answer. */
const FINAL_CODES: readonly number[] = [
  ...[status.UNAUTHENTICATED, status.PERMISSION_DENIED],
  ...[status.INVALID_ARGUMENT, status.UNIMPLEMENTED],
];
/** Whether the request arrived is unknown, or it was not served: to ask again is safe. */
const TRANSIENT_CODES: readonly number[] = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.CANCELLED];

/**
 * Subscribes and works on each JobCall: keeps its lease, and finishes it with what came out. Subscribes again,
 * with backoff, whenever the stream ends.
 */
export function startWorker(
  options: RunnerAddress & {
    /** Name of this subscriber, at most 128 characters. */
    readonly subscriber: string;
    /** The most deliveries worked on at once. */
    readonly concurrency: number;
    /** Only these jobs; empty: all. */
    readonly jobIds: readonly bigint[];
    /** Must not throw. What it gives after `lost` was aborted is ignored. */
    readonly work: (delivery: Delivery, lost: AbortSignal) => Promise<Outcome>;
    readonly logger: Logger;
  },
): Worker {
  const { address, concurrency, logger } = options;
  const connection = connectRunner(options);
  // A new stream may bring work before that of the last one is over.
  const limit = pLimit(concurrency);
  const held = new Map<KeptLease, Promise<void>>();
  const stopping = new AbortController();
  let endStream = (): void => undefined;

  const take = (call: JobCall): void => {
    // There is no way to hand it back without costing it an attempt soon after: it moves on when the stream ends.
    if (stopping.signal.aborted) return;
    const expiresAtMs = call.leaseExpiresAt ? timestampMs(call.leaseExpiresAt) : 0;
    const lease = keepLease({ extend: () => connection.extend(call), expiresAtMs });
    const finished = limit(() => handle(call, lease)).finally(() => {
      lease.letGo();
      held.delete(lease);
      if (stopping.signal.aborted && held.size === 0) endStream();
    });
    held.set(lease, finished);
  };

  const handle = async (call: JobCall, { lost }: KeptLease): Promise<void> => {
    const { callId, attempt } = call;
    const log = logger.child({ callId: String(callId), attempt });
    if (lost.aborted) return;
    const outcome = await options.work(call, lost);
    if (lost.aborted) return log.warn("lease lost; the JobCall goes to the next subscriber");
    const told = { outcome: outcome.kind, ...("reason" in outcome ? { reason: outcome.reason } : {}) };
    try {
      const leaseStatus = await untilAnswered(() => finish(call, outcome), lost);
      if (leaseStatus === LeaseStatus.DONE) log.info(told, "finished");
      else log.warn(told, "finished too late: the lease was lost, or the JobCall was finished before");
    } catch (error) {
      log.error({ err: error }, "jobgate did not take the outcome; the JobCall comes again");
    }
  };

  const finish = (call: JobCall, outcome: Outcome): Promise<LeaseStatus> => {
    if (outcome.kind === "done") return connection.ack(call, outcome);
    return connection.nack(call, { case: outcome.kind, value: { reason: outcome.reason } });
  };

  /** Resolves when the stream has ended, with the reason. */
  const subscribe = (onConnected: () => void): Promise<ServiceError | undefined> =>
    new Promise((resolve) => {
      const { subscriber, jobIds } = options;
      const stream = connection.subscribe({ subscriber, maxInFlight: concurrency, jobIds: [...jobIds] });
      endStream = () => stream.cancel();
      stream.once("metadata", onConnected);
      stream.on("data", take);
      stream.once("error", (error: ServiceError) => resolve(error));
      stream.once("end", () => resolve(undefined));
    });

  const run = async (): Promise<void> => {
    let backoffMs = MIN_BACKOFF_MS;
    while (!stopping.signal.aborted) {
      const error = await subscribe(() => {
        backoffMs = MIN_BACKOFF_MS;
        logger.info({ address }, "subscribed");
      });
      if (stopping.signal.aborted) break;
      if (error !== undefined && FINAL_CODES.includes(error.code))
        throw new SubscriptionRefused(error.details);
      logger.warn({ address, reason: error?.details ?? "the stream ended" }, "not subscribed; trying again");
      for (const lease of held.keys()) lease.renew();
      await sleep(Math.random() * backoffMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS);
    }
  };

  const stop = (): void => {
    stopping.abort();
    if (held.size === 0) endStream();
  };
  const ended = run().finally(async () => {
    await Promise.all(held.values());
    connection.close();
  });
  return {
    ended,
    stop,
    kill() {
      stop();
      for (const lease of held.keys()) lease.giveUp();
    },
  };
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
