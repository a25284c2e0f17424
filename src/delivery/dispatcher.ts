import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { faultPoint } from "../core/fault-points.ts";
import { type JobLimit, MAX_RESULT_BYTES } from "../core/job-call.ts";
import { within } from "../core/waiting.ts";
import type {
  CalledJob,
  Charge,
  ClaimedCall,
  JobResult,
  Lease,
  LeaseOutcome,
  Progress,
  RetryBackoff,
  RetryRequest,
  WorkQueue,
} from "../store/contract/work-queue.ts";
import { BackgroundRequests } from "./background-requests.ts";
import { ClaimRounds } from "./claim-rounds.ts";
import type { DeliveryObserver } from "./delivery-telemetry.ts";
import { DueWatcher } from "./due-watcher.ts";
import { LeaseTable, type OutLease } from "./lease-table.ts";
import { LeaseWatch } from "./lease-watch.ts";
import { ackLarge, ResultWriter } from "./result-writer.ts";
import { type CallSink, type RunnerReport, type SubscribeRequest, Subscription } from "./subscription.ts";

/** Returns why the payer of a JobCall that is charged after it ran cannot pay; undefined if the JobCall can be delivered. */
export type DeliveryCheck = (callId: number) => Promise<string | undefined>;

const UNOBSERVED: DeliveryObserver = { delivering: () => () => undefined, leaseExpired: () => undefined };

/** Delay before the store is queried for the due time of a retry whose delay only the store knows. */
const BACKOFF_LOOK_MS = 10;

/**
 * Carries JobCalls from the store to streams, and runners' outcomes back to the store, which decides them. A request about a
 * lease that rejects with `GatewayError("store_unavailable")` has changed nothing.
 */
export class Dispatcher {
  /** Length of the leases that the dispatcher grants. */
  readonly leaseMs: number;
  readonly #workQueue: WorkQueue;
  readonly #clock: Clock;
  readonly #wallClock: Clock;
  readonly #logger: Logger;
  readonly #observer: DeliveryObserver;
  readonly #check: DeliveryCheck | undefined;
  /** Returns the size of the largest result of a job. */
  readonly maxResultBytes: (job: CalledJob) => number;
  readonly #leases: LeaseTable;
  /** Set if other processes share the store's leases. */
  readonly #leaseWatch: LeaseWatch | undefined;
  readonly #dueWatcher: DueWatcher;
  readonly #stopListening: () => void;
  readonly #rounds: ClaimRounds;
  /** Open streams, the longest connected first. */
  readonly #streams = new Set<Subscription>();
  readonly #background: BackgroundRequests;
  #ending = false;

  constructor(options: {
    readonly workQueue: WorkQueue;
    readonly leaseMs: number;
    readonly maxAttempts: number;
    /** Backoff of JobCalls that are lost with their stream. */
    readonly backoff: RetryBackoff;
    /** Monotonic clock for leases and waits. */
    readonly clock: Clock;
    readonly wallClock: Clock;
    readonly logger: Logger;
    readonly observer: DeliveryObserver | undefined;
    readonly check?: DeliveryCheck | undefined;
    /** Returns the size of the largest result of a job. Default: 1 MiB. */
    readonly maxResultBytes?: ((job: CalledJob) => number) | undefined;
  }) {
    const { workQueue, clock, wallClock, logger, observer = UNOBSERVED } = options;
    this.#workQueue = workQueue;
    this.leaseMs = options.leaseMs;
    this.#clock = clock;
    this.#wallClock = wallClock;
    this.#logger = logger;
    this.#observer = observer;
    this.#check = options.check;
    this.maxResultBytes = options.maxResultBytes ?? (() => MAX_RESULT_BYTES);
    this.#leases = new LeaseTable({
      clock,
      onExpired: (leases) => {
        // Another process may have renewed the leases.
        if (this.#leaseWatch) this.#leaseWatch.look(leases);
        else for (const lease of leases) this.#expire(lease);
      },
      onAbandoned: (lease) => {
        if (!this.#ending) this.#letGo(lease, { excused: false });
      },
    });
    this.#leaseWatch =
      workQueue.sharedLeases &&
      new LeaseWatch({
        sharedLeases: workQueue.sharedLeases,
        leases: this.#leases,
        clock,
        logger,
        onExpired: (lease) => this.#expire(lease),
        onOverstayed: (lease) => this.#giveUp(lease),
        onRenewed: (lease) => {
          // During a shutdown, the runner continues at the process that renewed the lease.
          if (this.#ending) this.#leases.remove(lease);
        },
      });
    this.#background = new BackgroundRequests({
      workQueue,
      retry: { maxAttempts: options.maxAttempts, backoff: options.backoff },
      logger,
      onReady: (wake) => this.#rounds.wake(wake),
      onDelayed: () => this.#dueWatcher.expect(clock() + BACKOFF_LOOK_MS),
    });
    this.#rounds = new ClaimRounds({
      terms: { workQueue, leaseMs: this.leaseMs, maxAttempts: options.maxAttempts, clock },
      onWithheld: (forMs) => this.#dueWatcher.expect(clock() + forMs),
      logger,
      deliver: (...claimed) => this.#deliver(...claimed),
      giveBack: (call) => this.#background.release(call, { excused: true }), // No runner has received the JobCall.
    });
    this.#stopListening = workQueue.onWork(() => this.#rounds.wake());
    this.#dueWatcher = new DueWatcher({
      workQueue,
      onDue: () => this.#rounds.wake({ suspects: true }),
      onOverdue: () => this.#background.expireLeases(),
      clock,
      logger,
    });
  }

  /** Begins to deliver JobCalls. Before that, open the streams that reserve jobs. */
  start(): void {
    this.#rounds.start();
  }

  /** Opens a stream, and ends streams that name a job it reserves. @returns undefined while streams are being ended */
  subscribe(request: SubscribeRequest, sink: CallSink): Subscription | undefined {
    if (this.#ending) return undefined;
    for (const other of this.#streams)
      for (const lease of other.endForReserved(request)) this.#letGo(lease, { excused: true });
    const subscription = new Subscription({
      request,
      sink,
      connectedSince: this.#wallClock(),
      onRoom: () => this.#rounds.roomFreed(),
      onSent: (lease) => this.#ackSent(lease),
      onLate: (lease) => this.#letGo(lease, { excused: true }),
      clock: this.#clock,
    });
    this.#streams.add(subscription);
    this.#rounds.add(subscription, request);
    return subscription;
  }

  /**
   * Closes a stream that has ended. The stream's unfinished JobCalls go to the next subscriber. Safe to call twice.
   * @param options `excused` if the runner has not begun any of the JobCalls
   */
  unsubscribe(subscription: Subscription, { excused } = { excused: false }): void {
    if (!this.#streams.delete(subscription)) return;
    this.#rounds.remove(subscription);
    const { written, unwritten } = subscription.close();
    for (const lease of unwritten) this.#letGo(lease, { excused: true });
    for (const lease of written) if (lease.pendingRequests === 0) this.#letGo(lease, { excused });
  }

  /** Stops delivering JobCalls of these jobs from now on. Leases that were granted stay valid. */
  hold(jobIds: readonly bigint[]): void {
    this.#rounds.hold(jobIds);
  }

  /** Delivers JobCalls of these jobs only to streams that reserve them, from now on. */
  reserve(jobIds: readonly bigint[]): void {
    this.#rounds.reserve(jobIds);
  }

  /** Jobs whose JobCalls go only to streams that reserve them. */
  get reserved(): readonly bigint[] {
    return this.#rounds.reserved;
  }

  /** Applies limits of jobs from now on, together with the other processes that share the store. */
  limit(limits: readonly JobLimit[]): void {
    this.#rounds.limit(limits);
  }

  /** Describes every open stream, the longest connected first. */
  report(): RunnerReport[] {
    return [...this.#streams].map((subscription) => subscription.report());
  }

  ack(lease: Lease, result?: JobResult, charge?: Charge): Promise<LeaseOutcome> {
    faultPoint("before-ack");
    if (result !== undefined && result.body.byteLength > MAX_RESULT_BYTES)
      return this.#finish(lease, (held) => ackLarge(this.#workQueue, held, result, charge));
    return this.#finish(lease, (held) => this.#workQueue.ack(held, result, charge));
  }

  /** Returns a writer for a result that arrives in pieces under its lease. */
  resultWriter(lease: Lease): ResultWriter {
    return new ResultWriter(this.#workQueue, lease);
  }

  fail(lease: Lease, reason: string): Promise<LeaseOutcome> {
    return this.#finish(lease, (held) => this.#workQueue.fail(held, reason));
  }

  async retry(lease: Lease, retry: RetryRequest): Promise<LeaseOutcome> {
    const outcome = await this.#finish(lease, (held) => this.#workQueue.retry(held, retry));
    if (retry.delayMs === 0) this.#rounds.wake();
    else this.#dueWatcher.expect(this.#clock() + (retry.delayMs ?? BACKOFF_LOOK_MS));
    return outcome;
  }

  /** Releases a JobCall that did not reach its runner, or that may have crashed its runner. */
  giveBack(lease: Lease, options: Parameters<BackgroundRequests["release"]>[1]): void {
    const out = this.#leases.find(lease);
    if (out !== undefined) this.#letGo(out, options);
  }

  async extend(
    lease: Lease,
    extendMs: number,
    reported: { readonly progress?: Progress | undefined; readonly chargeSoFar?: Charge | undefined } = {},
  ): Promise<LeaseOutcome> {
    const out = this.#leases.find(lease);
    if (out !== undefined) this.#leases.beginRequest(out);
    try {
      const { progress, chargeSoFar: charge } = reported;
      const { outcome, leaseExpiresAt } = await this.#workQueue.extend(lease, extendMs, progress, charge);
      const expiresAt = this.#clock() + extendMs;
      if (out !== undefined && outcome === "done")
        this.#leases.renew(out, { expiresAt, leaseExpiresAt, renewedElsewhere: false });
      else if (out !== undefined) this.#leases.remove(out);
      this.#dueWatcher.expect(expiresAt);
      return outcome;
    } finally {
      if (out !== undefined) this.#leases.endRequest(out);
    }
  }

  /**
   * Stops claiming, and ends every stream: at once, or with the last lease of a stream that carries outcomes. Leases stay
   * valid, so runners can still finish their JobCalls. Safe to call twice.
   */
  endStreams(): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#stopListening();
    this.#dueWatcher.stop();
    this.#rounds.stop();
    for (const subscription of this.#streams)
      for (const lease of subscription.shutDown()) this.#letGo(lease, { excused: true });
    for (const lease of this.#leases.all()) if (lease.renewedElsewhere) this.#leases.remove(lease);
  }

  /** Call after {@link endStreams}. Waits up to `drainMs` for the leases, releases the rest, and stops using the store. */
  async drain(drainMs: number): Promise<void> {
    this.#background.add(this.#rounds.idle());
    await this.#leases.whenEmpty(drainMs);
    await this.#leaseWatch?.stop();
    for (const lease of this.#leases.all()) {
      this.#background.releaseAtStop(lease);
      this.#leases.remove(lease);
    }
    // A round that is still in progress adds releases of its claimed JobCalls.
    await this.#background.idle();
    this.#leases.stop();
  }

  #deliver(call: ClaimedCall, expiresAt: number, subscription: Subscription): void {
    const { callId, leaseToken, leaseExpiresAt, suspect, deferred } = call;
    faultPoint("before-delivery");
    const lease: OutLease = {
      callId,
      leaseToken,
      suspect,
      expiresAt,
      leaseExpiresAt,
      renewedElsewhere: false,
      pendingRequests: 0,
      holder: subscription,
    };
    this.#leases.add(lease);
    this.#dueWatcher.expect(expiresAt);
    const check = deferred ? this.#check : undefined;
    const onWritten = this.#observer.delivering(call, subscription.subscriber);
    subscription.deliver(call, lease, onWritten, check !== undefined);
    if (check !== undefined) void this.#admit(lease, subscription, check);
  }

  /** Writes a held JobCall once its payer is known to be able to pay. If the check gives no result, the job runs. */
  async #admit(lease: OutLease, subscription: Subscription, check: DeliveryCheck): Promise<void> {
    const { callId } = lease;
    try {
      // The check gets half of the lease, so that the lease does not expire before the job can run.
      const checked = check(callId).catch(() => undefined);
      const reason = await within((lease.expiresAt - this.#clock()) / 2, checked);
      if (reason === undefined) return subscription.admit(lease);
      if ((await this.fail(lease, reason)) === "done")
        this.#logger.warn({ callId }, `a paid job was not run: ${reason}`);
    } catch (error) {
      this.#logger.warn({ err: error, callId }, "could not dead-letter an unpayable JobCall; trying again");
      this.giveBack(lease, { excused: true });
    }
  }

  /** Tells the store to end a lease, and frees its slot once the store has answered. */
  async #finish(
    lease: Lease,
    ask: (lease: Lease) => Promise<{ readonly outcome: LeaseOutcome }>,
  ): Promise<LeaseOutcome> {
    const out = this.#leases.find(lease);
    const fromElsewhere = this.#leaseWatch !== undefined && out === undefined;
    if (out !== undefined) this.#leases.beginRequest(out);
    try {
      const { outcome } = await ask(fromElsewhere ? { ...lease, fromElsewhere } : lease);
      faultPoint("after-ack");
      if (out !== undefined) this.#leases.remove(out);
      return outcome;
    } finally {
      if (out !== undefined) this.#leases.endRequest(out);
    }
  }

  #ackSent({ callId, leaseToken }: OutLease): void {
    this.#finish({ callId, leaseToken }, (held) => this.#workQueue.ack(held)).catch((error: unknown) => {
      this.#logger.warn({ err: error, callId }, "could not mark a sent JobCall as done: it is sent again");
    });
  }

  #letGo(lease: OutLease, options: Parameters<BackgroundRequests["release"]>[1]): void {
    this.#leases.remove(lease);
    this.#background.release(lease, options);
  }

  #expire(lease: OutLease): void {
    this.#leases.remove(lease);
    this.#observer.leaseExpired();
  }

  /** Releases a lease that expired on this process's clock but not on the store's. */
  #giveUp(lease: OutLease): void {
    this.#expire(lease);
    this.#background.giveUp(lease, "its lease ran out");
  }
}
