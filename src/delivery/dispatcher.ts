import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { faultPoint } from "../core/fault-points.ts";
import type {
  ClaimedCall,
  JobResult,
  Lease,
  LeaseOutcome,
  Progress,
  RetryRequest,
  WorkQueue,
} from "../store/contract/work-queue.ts";
import { type Claimer, createClaimer } from "./claimer.ts";
import { createDueWatcher } from "./due-watcher.ts";
import { createLeaseTable, type OutLease } from "./lease-table.ts";
import { createLeaseWatch } from "./lease-watch.ts";
import { createSubscription, type Subscription, type SubscriptionOptions } from "./subscription.ts";

export interface DispatcherOptions {
  readonly workQueue: WorkQueue;
  readonly leaseMs: number;
  readonly maxAttempts: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Default: nobody is told. */
  readonly observer?: DeliveryObserver;
}

/** Is told of what goes out to runners. Must be quick and not throw. */
export interface DeliveryObserver {
  /** @returns called once the JobCall is written to its stream; never, if that ends before */
  delivering(call: ClaimedCall, subscriber: string): () => void;
  leaseExpired(): void;
}

const UNOBSERVED: DeliveryObserver = { delivering: () => () => undefined, leaseExpired: () => undefined };

/** A subscription as its stream sees it. */
export interface StreamHandle {
  /** The stream can be written to again. */
  drained(): void;
  /** The stream is over: what is still out on it goes to the next subscriber. Safe to call twice. */
  ended(): void;
}

/** An open stream as the operator sees it. */
export interface RunnerReport {
  readonly subscriber: string;
  /** Empty means all. */
  readonly jobIds: readonly bigint[];
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** Unix milliseconds. */
  readonly connectedSince: number;
}

/**
 * Carries JobCalls from the store to streams, and what runners say about them back.
 *
 * The outcomes are the store's; here they also free the slot that the JobCall took up on its stream.
 * All reject with `GatewayError("store_unavailable")` when the store does: then nothing has changed.
 */
export interface Dispatcher {
  /** @returns undefined when streams are being ended */
  subscribe(options: SubscriptionOptions): StreamHandle | undefined;
  /** Every open stream, the longest connected first. */
  report(): RunnerReport[];
  ack(lease: Lease, result?: JobResult): Promise<LeaseOutcome>;
  retry(lease: Lease, retry: RetryRequest): Promise<LeaseOutcome>;
  fail(lease: Lease, reason: string): Promise<LeaseOutcome>;
  extend(lease: Lease, leaseMs: number, progress?: Progress): Promise<LeaseOutcome>;
  /** Ends every stream and claims no more. Leases stay out: they can still be finished. Safe to call twice. */
  endStreams(): void;
  /** After {@link endStreams}: waits up to `drainMs` for the leases, gives back the rest, and lets go of the store. */
  drain(drainMs: number): Promise<void>;
}

/** Only the store knows the delay that it drew for a retry: it is asked this soon. */
const BACKOFF_LOOK_MS = 10;

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { workQueue, leaseMs, maxAttempts, clock, logger } = options;
  const { observer = UNOBSERVED } = options;
  const { sharedLeases } = workQueue;
  const leases = createLeaseTable({
    clock,
    onRanOut: (ranOut) => (leaseWatch ? leaseWatch.look(ranOut) : ranOut.forEach(expire)),
    onAbandoned(lease) {
      if (!ending) letGo(lease, { excused: false });
    },
  });
  const leaseWatch =
    sharedLeases &&
    createLeaseWatch({ sharedLeases, leases, clock, logger, onExpired: expire, onRenewed: leaveToOthers });
  const claimers = new Map<string, Claimer>();
  const streams = new Map<Subscription, Omit<RunnerReport, "inFlight">>();
  /** What no request waits for: it has to end before the store may close. */
  const background = new Set<Promise<void>>();
  let ending = false;

  const wakeAll = () => {
    for (const claimer of claimers.values()) claimer.wake();
  };
  const stopListening = workQueue.onWork(wakeAll);
  const dueWatcher = createDueWatcher({
    nextDue: () => workQueue.nextDue(),
    onDue: wakeAll,
    onOverdue: makeDue,
    clock,
    logger,
  });

  function claimerFor(filter: readonly bigint[]): { key: string; claimer: Claimer } {
    const jobIds = [...new Set(filter)].sort((left, right) => (left < right ? -1 : 1));
    const key = jobIds.join();
    const claimer =
      claimers.get(key) ??
      createClaimer({ workQueue, jobIds, leaseMs, maxAttempts, logger, deliver, giveBack });
    claimers.set(key, claimer);
    return { key, claimer };
  }

  function deliver(call: ClaimedCall, subscription: Subscription): void {
    // By this clock, not the store's: they may be two machines. It errs on the side of keeping the slot.
    const expiresAt = clock() + leaseMs;
    const { callId, leaseToken } = call;
    faultPoint("before-delivery");
    const lease: OutLease = {
      callId,
      leaseToken,
      expiresAt,
      leaseExpiresAt: call.leaseExpiresAt,
      renewedElsewhere: false,
      requestsInHand: 0,
      holder: subscription,
    };
    leases.add(lease);
    dueWatcher.expect(expiresAt);
    subscription.deliver(call, lease, observer.delivering(call, subscription.subscriber));
  }

  /** JobCalls that no runner has seen. */
  function giveBack(calls: readonly Lease[]): void {
    for (const call of calls) release(call, { excused: true });
  }

  function release(lease: Lease, { excused }: { excused: boolean }): void {
    const { callId, leaseToken } = lease;
    const released = workQueue
      .release({ callId, leaseToken }, { excused, maxAttempts })
      .then(wakeAll, (error: unknown) => {
        logger.warn(
          { err: error, callId },
          "Could not release a lease: its JobCall waits until the lease runs out",
        );
      });
    waitFor(released);
  }

  /** Nobody has claimed what ran out: a JobCall that has used up its attempts is a dead letter all the same. */
  async function makeDue(): Promise<void> {
    const made = workQueue.claim({ limit: 0, jobIds: [], leaseMs, maxAttempts, subscriber: "" });
    waitFor(made.then(() => undefined).catch(() => undefined));
    await made;
  }

  function waitFor(work: Promise<void>): void {
    const done = work.finally(() => background.delete(done));
    background.add(done);
  }

  function letGo(lease: OutLease, options: { excused: boolean }): void {
    leases.remove(lease);
    release(lease, options);
  }

  function expire(lease: OutLease): void {
    leases.remove(lease);
    observer.leaseExpired();
  }

  /** A runner that renews its lease at another process goes on there when this one goes away. */
  function leaveToOthers(lease: OutLease): void {
    if (ending) leases.remove(lease);
  }

  async function whileInHand<T>(lease: Lease, ask: (out: OutLease | undefined) => Promise<T>): Promise<T> {
    const out = leases.find(lease);
    const done = out && leases.takeInHand(out);
    try {
      return await ask(out);
    } finally {
      done?.();
    }
  }

  function finish(lease: Lease, ask: (lease: Lease) => Promise<LeaseOutcome>): Promise<LeaseOutcome> {
    return whileInHand(lease, async (out) => {
      const fromElsewhere = sharedLeases !== undefined && out === undefined;
      const outcome = await ask(fromElsewhere ? { ...lease, fromElsewhere } : lease);
      if (out !== undefined) leases.remove(out);
      return outcome;
    });
  }

  function ackSent({ callId, leaseToken }: OutLease): void {
    const lease = { callId, leaseToken };
    finish(lease, (held) => workQueue.ack(held)).catch((error: unknown) => {
      logger.warn({ err: error, callId }, "Could not mark a sent JobCall as done: it will be sent again");
    });
  }

  return {
    subscribe(request) {
      if (ending) return undefined;
      const { key, claimer } = claimerFor(request.jobIds);
      const subscription = createSubscription({
        ...request,
        onRoom: () => claimer.roomFreed(),
        onSent: ackSent,
      });
      const handle: StreamHandle = {
        drained: () => subscription.drained(),
        ended() {
          if (!streams.delete(subscription)) return;
          claimer.remove(subscription);
          if (claimer.isEmpty()) {
            claimer.stop();
            claimers.delete(key);
            waitFor(claimer.idle());
          }
          const { written, unwritten } = subscription.close();
          for (const lease of unwritten) letGo(lease, { excused: true });
          for (const lease of written) if (lease.requestsInHand === 0) letGo(lease, { excused: false });
        },
      };
      const { subscriber, jobIds, maxInFlight } = request;
      streams.set(subscription, { subscriber, jobIds, maxInFlight, connectedSince: clock() });
      claimer.add(subscription);
      return handle;
    },

    report: () =>
      [...streams].map(([subscription, stream]) => ({ ...stream, inFlight: subscription.inFlight() })),

    ack(lease, result) {
      faultPoint("before-ack");
      return finish(lease, (held) => workQueue.ack(held, result));
    },
    fail: (lease, reason) => finish(lease, (held) => workQueue.fail(held, reason)),
    async retry(lease, retry) {
      const outcome = await finish(lease, (held) => workQueue.retry(held, retry));
      if (retry.delayMs === 0) wakeAll();
      else dueWatcher.expect(clock() + (retry.delayMs ?? BACKOFF_LOOK_MS));
      return outcome;
    },
    extend: (lease, extendMs, progress) =>
      whileInHand(lease, async (out) => {
        const { outcome, leaseExpiresAt } = await workQueue.extend(lease, extendMs, progress);
        const expiresAt = clock() + extendMs;
        if (out !== undefined && outcome === "done")
          leases.renew(out, { expiresAt, leaseExpiresAt, renewedElsewhere: false });
        else if (out !== undefined) leases.remove(out);
        dueWatcher.expect(expiresAt);
        return outcome;
      }),

    endStreams() {
      if (ending) return;
      ending = true;
      stopListening();
      dueWatcher.stop();
      for (const claimer of claimers.values()) claimer.stop();
      for (const subscription of streams.keys()) {
        for (const lease of subscription.close().unwritten) letGo(lease, { excused: true });
        subscription.endForShutdown();
      }
      streams.clear();
      for (const lease of leases.all()) if (lease.renewedElsewhere) leaveToOthers(lease);
    },

    async drain(drainMs) {
      for (const claimer of claimers.values()) waitFor(claimer.idle());
      await leases.whenEmpty(drainMs);
      await leaseWatch?.stop();
      for (const lease of leases.all()) letGo(lease, { excused: true });
      // What a claim still in flight brings is released too, and so adds to the set.
      while (background.size > 0) await Promise.all(background);
      leases.stop();
    },
  };
}
