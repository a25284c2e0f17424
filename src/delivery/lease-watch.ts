import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import type { LeaseStanding, SharedLeases } from "../store/contract/work-queue.ts";
import type { LeaseTable, OutLease } from "./lease-table.ts";

/** Longest time for which this process does not notice that another process ended or renewed a lease. */
const LOOK_EVERY_MS = 1_000;
const MAX_AT_ONCE = 500;
/** Smaller differences between this process's clock and the store's are drift, or the time that an answer takes. */
const MAX_SKEW_MS = 1_000;

/** Keeps the lease table in step with a store in which other processes end and renew this process's leases. */
export class LeaseWatch {
  readonly #sharedLeases: SharedLeases;
  readonly #leases: LeaseTable;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onExpired: (lease: OutLease) => void;
  readonly #onOverstayed: (lease: OutLease) => void;
  readonly #onRenewed: (lease: OutLease) => void;
  readonly #wanted = new Set<OutLease>();
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;
  #looking: Promise<void> | undefined;

  constructor(options: {
    readonly sharedLeases: SharedLeases;
    readonly leases: LeaseTable;
    readonly clock: Clock;
    readonly logger: Logger;
    /** Called when a lease expired before its JobCall was finished. */
    readonly onExpired: (lease: OutLease) => void;
    /** Called when a lease expired here but not in the store, whose clock was set back. */
    readonly onOverstayed: (lease: OutLease) => void;
    /** Called when another process renewed a lease. */
    readonly onRenewed: (lease: OutLease) => void;
  }) {
    this.#sharedLeases = options.sharedLeases;
    this.#leases = options.leases;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onExpired = options.onExpired;
    this.#onOverstayed = options.onOverstayed;
    this.#onRenewed = options.onRenewed;
    this.#timer = setInterval(() => this.look(this.#leases.all()), LOOK_EVERY_MS).unref();
    this.#stopListening = this.#sharedLeases.onEndedElsewhere((callIds) => {
      const ended = new Set(callIds);
      this.look(this.#leases.all().filter(({ callId }) => ended.has(callId)));
    });
  }

  /**
   * Queries the store about these leases soon. Removes leases that have ended. Keeps the other leases until they expire
   * in the store.
   */
  look(leases: readonly OutLease[]): void {
    for (const lease of leases) this.#wanted.add(lease);
    this.#looking ??= this.#lookAtWanted().finally(() => {
      this.#looking = undefined;
    });
  }

  /** Checks all leases for the last time. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopListening();
    this.look(this.#leases.all());
    await this.#looking;
  }

  async #lookAtWanted(): Promise<void> {
    while (this.#wanted.size > 0) {
      const batch = [...this.#wanted].slice(0, MAX_AT_ONCE);
      for (const lease of batch) this.#wanted.delete(lease);
      // The store's answer to a pending request will include the state of its lease.
      const idle = batch.filter((lease) => lease.pendingRequests === 0 && this.#leases.find(lease) === lease);
      if (idle.length > 0) await this.#lookAt(idle);
    }
  }

  async #lookAt(asked: readonly OutLease[]): Promise<void> {
    const known = asked.map(({ leaseExpiresAt }) => leaseExpiresAt);
    for (const lease of asked) this.#leases.beginRequest(lease);
    try {
      const standings = await this.#sharedLeases.look(
        asked.map(({ callId, leaseToken }) => ({ callId, leaseToken })),
      );
      for (const [index, lease] of asked.entries()) {
        const standing = standings[index];
        // A request of this process that came in the meantime has a newer result.
        const isUntouched = lease.pendingRequests === 1 && lease.leaseExpiresAt === known[index];
        if (standing?.kind === "held" && isUntouched) this.#renew(lease, standing);
        else if (standing !== undefined && standing.kind !== "held") this.#end(lease, standing);
      }
    } catch (error) {
      this.#logger.warn({ err: error }, "could not read the state of leases from the store");
      for (const lease of asked) if (lease.expiresAt <= this.#clock()) this.#onExpired(lease);
    } finally {
      for (const lease of asked) this.#leases.endRequest(lease);
    }
  }

  #renew(lease: OutLease, { at, leaseExpiresAt }: LeaseStanding & { kind: "held" }): void {
    const leftMs = leaseExpiresAt - at;
    const expiresAt = this.#clock() + leftMs;
    if (leaseExpiresAt !== lease.leaseExpiresAt) {
      this.#leases.renew(lease, { expiresAt, leaseExpiresAt, renewedElsewhere: true });
      this.#onRenewed(lease);
    } else if (lease.expiresAt <= this.#clock()) {
      if (leftMs > MAX_SKEW_MS) this.#onOverstayed(lease);
      else this.#leases.renew(lease, { ...lease, expiresAt });
    }
  }

  #end(lease: OutLease, standing: Exclude<LeaseStanding, { kind: "held" }>): void {
    const isExpired = standing.kind === "lease_lost" && standing.at >= lease.leaseExpiresAt;
    if (isExpired) this.#onExpired(lease);
    else this.#leases.remove(lease);
  }
}
