import type { EventHub } from "../../core/events.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";

/** Follows paid calls for the clients that wait for them. */
export class CallWatch {
  readonly #calls: Pick<CallLookup, "findCall">;
  readonly #events: EventHub | undefined;
  readonly #pollMs: number;
  readonly #alarms = new Map<number, Set<Alarm>>();
  #isStopped = false;
  #unsubscribe: (() => void) | undefined;

  /**
   * @param parts `events` wakes watchers at once when this process changes a call; without it they wait for the next
   * poll. `pollMs` covers the other changes: expired leases and other processes on the same store.
   */
  constructor(parts: {
    readonly calls: Pick<CallLookup, "findCall">;
    readonly events?: EventHub | undefined;
    readonly pollMs: number;
  }) {
    this.#calls = parts.calls;
    this.#events = parts.events;
    this.#pollMs = parts.pollMs;
  }

  /**
   * Yields the call's current state, then again after every change and at every poll, changed or not. Skips states
   * that are over before the consumer asks for the next. Ends after `succeeded`, after `failed` once its refund has
   * ended or waits for the operator, when the call is gone,
   * when `signal` aborts, or at {@link CallWatch.stop}.
   */
  async *states(callId: number, signal: AbortSignal): AsyncGenerator<CallState, void> {
    const alarm = new Alarm();
    const ring = () => alarm.ring();
    const isOver = () => this.#isStopped || signal.aborted;
    this.#add(callId, alarm);
    signal.addEventListener("abort", ring);
    try {
      while (!isOver()) {
        alarm.reset();
        const call = await this.#calls.findCall(callId).catch(() => "unknown" as const);
        if (call === undefined) return;
        // A store that cannot be read now is read again later: a paid call is not lost.
        if (call !== "unknown") yield call;
        if (call !== "unknown" && isFinished(call)) return;
        if (!isOver()) await alarm.rung(this.#pollMs);
      }
    } finally {
      signal.removeEventListener("abort", ring);
      this.#remove(callId, alarm);
    }
  }

  /** Ends every iteration of {@link CallWatch.states}, and any that starts later. */
  stop(): void {
    this.#isStopped = true;
    for (const alarms of this.#alarms.values()) for (const alarm of alarms) alarm.ring();
  }

  #add(callId: number, alarm: Alarm): void {
    const others = this.#alarms.get(callId);
    if (others === undefined) this.#alarms.set(callId, new Set([alarm]));
    else others.add(alarm);
    // Subscribes only while someone watches: the store makes no events that nobody listens to.
    this.#unsubscribe ??= this.#events?.subscribe((event) => {
      for (const woken of this.#alarms.get(event.callId) ?? []) woken.ring();
    });
  }

  #remove(callId: number, alarm: Alarm): void {
    const others = this.#alarms.get(callId);
    others?.delete(alarm);
    if (others?.size === 0) this.#alarms.delete(callId);
    if (this.#alarms.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}

/** Checks whether nothing more is to come, unless an operator decides something. */
export function isFinished({ state, refund }: CallState): boolean {
  const isRefunding = refund?.state === "sending" || (refund?.state === "owed" && refund.isApproved);
  return state === "succeeded" || state === "expired" || (state === "failed" && !isRefunding);
}

/** Wakes one waiter. Remembers a ring until the next reset, so a change between a read and the wait is not missed. */
class Alarm {
  #hasRung = false;
  #onRing = (): void => {};

  reset(): void {
    this.#hasRung = false;
  }

  ring(): void {
    this.#hasRung = true;
    this.#onRing();
  }

  /** Resolves once the alarm has rung, or after `timeoutMs`. */
  rung(timeoutMs: number): Promise<void> {
    if (this.#hasRung) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onRing = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
