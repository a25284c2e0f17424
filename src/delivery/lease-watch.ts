import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import type { LeaseStanding, SharedLeases } from "../store/contract/work-queue.ts";
import type { LeaseTable, OutLease } from "./lease-table.ts";

export interface LeaseWatchOptions {
  readonly sharedLeases: SharedLeases;
  readonly leases: LeaseTable;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A lease ran out before anyone finished its JobCall. */
  readonly onExpired: (lease: OutLease) => void;
  /** A lease was renewed by another process. */
  readonly onRenewed: (lease: OutLease) => void;
}

/** Keeps the table true to a store in which other processes end and renew the leases of this one. */
export interface LeaseWatch {
  /** Asks the store for these, soon; those that are gone are removed, and the others kept until they run out there. */
  look(leases: readonly OutLease[]): void;
  /** Looks at all a last time, and then no more. */
  stop(): Promise<void>;
}

/** The longest that an end or a renewal by another process goes unnoticed here. */
const LOOK_EVERY_MS = 1_000;
const MAX_AT_ONCE = 500;

export function createLeaseWatch(options: LeaseWatchOptions): LeaseWatch {
  const { sharedLeases, leases, clock, logger, onExpired, onRenewed } = options;
  const wanted = new Set<OutLease>();
  let looking: Promise<void> | undefined;

  function look(asked: readonly OutLease[]): void {
    for (const lease of asked) wanted.add(lease);
    looking ??= lookAtWanted().finally(() => {
      looking = undefined;
    });
  }

  async function lookAtWanted(): Promise<void> {
    while (wanted.size > 0) {
      const batch = [...wanted].slice(0, MAX_AT_ONCE);
      for (const lease of batch) wanted.delete(lease);
      // What becomes of those in hand will be known without asking.
      const free = batch.filter((lease) => lease.requestsInHand === 0 && leases.find(lease) === lease);
      if (free.length > 0) await lookAt(free);
    }
  }

  async function lookAt(asked: readonly OutLease[]): Promise<void> {
    const known = asked.map(({ leaseExpiresAt }) => leaseExpiresAt);
    const inHand = asked.map((lease) => leases.takeInHand(lease));
    try {
      const standings = await sharedLeases.look(
        asked.map(({ callId, leaseToken }) => ({ callId, leaseToken })),
      );
      for (const [index, lease] of asked.entries()) {
        const standing = standings[index];
        const isOthers = lease.requestsInHand === 1 && lease.leaseExpiresAt === known[index];
        if (standing?.kind === "held" && isOthers) renew(lease, standing);
        else if (standing !== undefined && standing.kind !== "held") end(lease, standing);
      }
    } catch (error) {
      logger.warn({ err: error }, "Could not ask the store how leases stand");
      for (const lease of asked) if (lease.expiresAt <= clock()) onExpired(lease);
    } finally {
      for (const done of inHand) done();
    }
  }

  function renew(lease: OutLease, { at, leaseExpiresAt }: LeaseStanding & { kind: "held" }): void {
    const isRenewed = leaseExpiresAt !== lease.leaseExpiresAt;
    const renewedElsewhere = lease.renewedElsewhere || isRenewed;
    leases.renew(lease, { expiresAt: clock() + leaseExpiresAt - at, leaseExpiresAt, renewedElsewhere });
    if (isRenewed) onRenewed(lease);
  }

  function end(lease: OutLease, standing: Exclude<LeaseStanding, { kind: "held" }>): void {
    const ranOut = standing.kind === "lease_lost" && standing.at >= lease.leaseExpiresAt;
    if (ranOut) onExpired(lease);
    else leases.remove(lease);
  }

  const timer = setInterval(() => look(leases.all()), LOOK_EVERY_MS).unref();
  const stopListening = sharedLeases.onEndedElsewhere((callIds) => {
    const ended = new Set(callIds);
    look(leases.all().filter(({ callId }) => ended.has(callId)));
  });

  return {
    look,
    async stop() {
      clearInterval(timer);
      stopListening();
      look(leases.all());
      await looking;
    },
  };
}
