import type { Clock } from "../core/clock.ts";
import type { ClaimedCall } from "./contract/work-queue.ts";
import type { Store } from "./store.ts";

export interface BurialWatchOptions {
  readonly store: Pick<Store, "findDeadLetter">;
  readonly clock: Clock;
  readonly onBurial: (callId: number, reason: string, deadAt: number) => void;
}

/**
 * Notices dead letters that the store makes by itself, because a JobCall's attempts are used up: when it is given
 * back, or by the first claim after its lease has run out. Looks only at those that are on their last attempt.
 */
export interface BurialWatch {
  claimed(calls: readonly ClaimedCall[], maxAttempts: number): void;
  /** The lease now runs out then, Unix milliseconds. */
  extended(callId: number, leaseExpiresAt: number): void;
  /** It was given back: buried or, if not, `onReturned`. */
  returned(callId: number, onReturned: () => void): void;
  /** Done, or a dead letter that was told of. */
  finished(callId: number): void;
}

const MAX_ON_LAST_ATTEMPT = 10_000;
/** Between two looks at one JobCall. */
const LOOK_AGAIN_MS = 1_000;

export function createBurialWatch({ store, clock, onBurial }: BurialWatchOptions): BurialWatch {
  /** When to look at the JobCalls on their last attempt, once a claim has been made then. */
  const lookAt = new Map<number, number>();

  function look(callId: number, onAlive: () => void): void {
    store.findDeadLetter(callId).then(
      (letter) => {
        if (letter === undefined) return onAlive();
        lookAt.delete(callId);
        onBurial(callId, letter.reason, letter.deadAt);
      },
      // Then it is not told of: the journal has it all the same.
      () => undefined,
    );
  }

  return {
    claimed(calls, maxAttempts) {
      for (const { callId, attempt, leaseExpiresAt } of calls) {
        if (attempt < maxAttempts || lookAt.size >= MAX_ON_LAST_ATTEMPT) lookAt.delete(callId);
        else lookAt.set(callId, leaseExpiresAt);
      }
      const now = clock();
      for (const [callId, at] of lookAt) {
        if (at > now) continue;
        lookAt.set(callId, now + LOOK_AGAIN_MS);
        look(callId, () => undefined);
      }
    },
    extended(callId, leaseExpiresAt) {
      if (lookAt.has(callId)) lookAt.set(callId, leaseExpiresAt);
    },
    returned(callId, onReturned) {
      look(callId, onReturned);
    },
    finished(callId) {
      lookAt.delete(callId);
    },
  };
}
