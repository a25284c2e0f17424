import type { EventHub } from "../../core/events.ts";
import { Pause } from "../../core/waiting.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";

interface Parts {
  readonly calls: Pick<CallLookup, "findCall">;
  readonly events?: EventHub | undefined;
  readonly pollMs: number;
}

/** Follows paid calls for the clients that wait for them. */
export class CallWatch {
  readonly #parts: Parts;
  readonly #pauses = new Map<number, Set<Pause>>();
  #isStopped = false;
  #unsubscribe: (() => void) | undefined;

  /**
   * @param parts `events` wakes watchers at once when this process changes a call; without it they wait for the next
   * poll. `pollMs` covers the other changes: expired leases and other processes on the same store.
   */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Yields the call's current state, then again after every change and at every poll, changed or not. Skips states
   * that are over before the consumer asks for the next. Ends after `succeeded`, after `failed` once its refund has
   * ended or waits for the operator, when the call is gone, when `signal` aborts, or at {@link CallWatch.stop}.
   */
  async *states(callId: number, signal: AbortSignal): AsyncGenerator<CallState, void> {
    const pause = new Pause();
    const wake = () => pause.end();
    const isOver = () => this.#isStopped || signal.aborted;
    this.#add(callId, pause);
    signal.addEventListener("abort", wake);
    try {
      while (!isOver()) {
        // Changes from here on cut the pause short, and none is missed between the read and the pause.
        pause.reset();
        const call = await this.#parts.calls.findCall(callId).catch(() => "unknown" as const);
        if (call === undefined) return;
        // A store that cannot be read now is read again later: a paid call is not lost.
        if (call !== "unknown") yield call;
        if (call !== "unknown" && isFinished(call)) return;
        if (!isOver()) await pause.wait(this.#parts.pollMs);
      }
    } finally {
      signal.removeEventListener("abort", wake);
      this.#remove(callId, pause);
    }
  }

  /** Ends every iteration of {@link CallWatch.states}, and any that starts later. */
  stop(): void {
    this.#isStopped = true;
    for (const pauses of this.#pauses.values()) for (const pause of pauses) pause.end();
  }

  #add(callId: number, pause: Pause): void {
    const others = this.#pauses.get(callId);
    if (others === undefined) this.#pauses.set(callId, new Set([pause]));
    else others.add(pause);
    // Subscribes only while someone watches: the store makes no events that nobody listens to.
    this.#unsubscribe ??= this.#parts.events?.subscribe((event) => {
      for (const woken of this.#pauses.get(event.callId) ?? []) woken.end();
    });
  }

  #remove(callId: number, pause: Pause): void {
    const others = this.#pauses.get(callId);
    others?.delete(pause);
    if (others?.size === 0) this.#pauses.delete(callId);
    if (this.#pauses.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}

/** Returns true when nothing more can happen unless an operator decides something. */
export function isFinished({ state, refund }: CallState): boolean {
  const isRefunding = refund?.state === "sending" || (refund?.state === "owed" && refund.isApproved);
  return state === "succeeded" || state === "expired" || (state === "failed" && !isRefunding);
}
