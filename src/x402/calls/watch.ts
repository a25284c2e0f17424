import { Pause } from "../../core/background-loop.ts";
import type { EventHub, WhatHappened } from "../../core/events.ts";
import type { CallLookup, CallState } from "../../store/contract/call-lookup.ts";

interface Parts {
  readonly calls: Pick<CallLookup, "findCall">;
  readonly events?: EventHub | undefined;
  readonly pollMs: number;
}

/**
 * Changes that a watcher of a call waits for, and how it reads the call. Default: reads the call at once and after each
 * change.
 */
interface Interest {
  /** Returns true for a change after which the watcher reads the call. */
  readonly wakes?: (what: WhatHappened) => boolean;
  /** True if the call has only begun, so that the watcher first reads it after its first change. */
  readonly isNew?: boolean | undefined;
  /** Reads the call. */
  readonly look?: () => Promise<CallState | undefined>;
}

/** A watcher between two reads of its call. */
interface Watcher {
  readonly pause: Pause;
  readonly wakes: NonNullable<Interest["wakes"]>;
}

/** Follows paid calls for the clients that wait for them. */
export class CallWatch {
  readonly #parts: Parts;
  readonly #watchers = new Map<number, Set<Watcher>>();
  #isStopped = false;
  #unsubscribe: (() => void) | undefined;

  /**
   * @param parts `events` wakes watchers at once when this process changes a call; without it they wait for the next poll.
   *   `pollMs` is the interval at which other changes are noticed, such as expired leases and changes by other processes.
   */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Yields the call's current state, and then its state after every change and at every poll, changed or not. Skips states
   * that end before the consumer requests the next state. Ends after `succeeded`, after `failed` once the parts' reactions
   * have ended or wait for the operator, when the call is gone, when `signal` aborts, or at {@link CallWatch.stop}.
   */
  async *states(
    callId: number,
    signal: AbortSignal,
    { wakes = () => true, isNew = false, look = () => this.#parts.calls.findCall(callId) }: Interest = {},
  ): AsyncGenerator<CallState, void> {
    const pause = new Pause();
    const watcher = { pause, wakes };
    const wake = () => pause.end();
    const isOver = () => this.#isStopped || signal.aborted;
    this.#add(callId, watcher);
    signal.addEventListener("abort", wake);
    try {
      if (isNew && !isOver()) await pause.wait(this.#parts.pollMs);
      while (!isOver()) {
        // Later changes cut the pause short, so none is missed between the read and the pause.
        pause.reset();
        const call = await look().catch(() => "unknown" as const);
        if (call === undefined) return;
        // If the store cannot be read now, the call is read again later, because a paid call is not lost.
        if (call !== "unknown") yield call;
        if (call !== "unknown" && isFinished(call)) return;
        if (!isOver()) await pause.wait(this.#parts.pollMs);
      }
    } finally {
      signal.removeEventListener("abort", wake);
      this.#remove(callId, watcher);
    }
  }

  /** Ends every iteration of {@link CallWatch.states}, including iterations that start later. */
  stop(): void {
    this.#isStopped = true;
    for (const watchers of this.#watchers.values()) for (const { pause } of watchers) pause.end();
  }

  #add(callId: number, watcher: Watcher): void {
    const others = this.#watchers.get(callId);
    if (others === undefined) this.#watchers.set(callId, new Set([watcher]));
    else others.add(watcher);
    // Subscribes only while a client watches, because the store makes no events without a listener.
    this.#unsubscribe ??= this.#parts.events?.subscribe((event) => {
      for (const { pause, wakes } of this.#watchers.get(event.callId) ?? [])
        if (wakes(event.what)) pause.end();
    });
  }

  #remove(callId: number, watcher: Watcher): void {
    const others = this.#watchers.get(callId);
    others?.delete(watcher);
    if (others?.size === 0) this.#watchers.delete(callId);
    if (this.#watchers.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}

/** Returns true if the call can change only by a decision of the operator. */
export function isFinished({ state, additions = [] }: CallState): boolean {
  const goesOn = additions.some((addition) => addition.goesOn);
  return state === "succeeded" || state === "expired" || (state === "failed" && !goesOn);
}
