import type { EventHub } from "../../core/events.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";

export interface CallWatchOptions {
  readonly calls: Pick<CallLookup, "findCall">;
  /** What happens in this process wakes those who watch at once. */
  readonly events?: EventHub;
  /** How often to look anyway: leases run out by time alone, and other processes may share the store. Default 1 s. */
  readonly pollMs?: number;
}

/** Follows paid calls for clients who wait for them. */
export interface CallWatch {
  /**
   * Gives the call's state now, again whenever something has happened to it, and at least at every poll, whether or
   * not it has changed. What changes faster than it is taken is seen as it is then.
   * Ends after `succeeded` or `failed`, when the call is gone, when `signal` aborts, or at {@link stop}.
   */
  states(callId: number, signal: AbortSignal): AsyncGenerator<CallState, void>;
  /** Ends everything that is followed, and whatever would be from now on. */
  stop(): void;
}

const POLL_MS = 1_000;

export function createCallWatch({ calls, events, pollMs = POLL_MS }: CallWatchOptions): CallWatch {
  const watchers = new Map<number, Set<() => void>>();
  let stopped = false;
  let unsubscribe: (() => void) | undefined;

  function add(callId: number, wake: () => void): void {
    const others = watchers.get(callId);
    if (others === undefined) watchers.set(callId, new Set([wake]));
    else others.add(wake);
    // Only while someone watches: the hub's events cost what is watched a little.
    unsubscribe ??= events?.subscribe((event) => {
      for (const wakeWatcher of watchers.get(event.callId) ?? []) wakeWatcher();
    });
  }

  function remove(callId: number, wake: () => void): void {
    const others = watchers.get(callId);
    others?.delete(wake);
    if (others?.size === 0) watchers.delete(callId);
    if (watchers.size > 0) return;
    unsubscribe?.();
    unsubscribe = undefined;
  }

  return {
    async *states(callId, signal) {
      const alarm = createAlarm();
      const isOver = () => stopped || signal.aborted;
      add(callId, alarm.ring);
      signal.addEventListener("abort", alarm.ring);
      try {
        while (!isOver()) {
          alarm.set();
          const look = await calls.findCall(callId).catch(() => "unknown" as const);
          if (look === undefined) return;
          // A store that cannot be asked now may be asked again: what is paid for is not lost.
          if (look !== "unknown") yield look;
          if (look !== "unknown" && isFinished(look)) return;
          if (!isOver()) await alarm.rang(pollMs);
        }
      } finally {
        signal.removeEventListener("abort", alarm.ring);
        remove(callId, alarm.ring);
      }
    },
    stop() {
      stopped = true;
      for (const wakes of watchers.values()) for (const wake of wakes) wake();
    },
  };
}

export function isFinished({ state }: CallState): boolean {
  return state === "succeeded" || state === "failed";
}

/** Remembers that it rang since it was set: what happens between a look and the wait after it is not missed. */
function createAlarm() {
  let hasRung = false;
  let onRing = (): void => {};
  return {
    set(): void {
      hasRung = false;
    },
    ring(): void {
      hasRung = true;
      onRing();
    },
    /** Resolves once it has rung, or after `timeoutMs`. */
    rang(timeoutMs: number): Promise<void> {
      if (hasRung) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        onRing = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}
