/**
 * Requests that tell operators and buyers about an event. The write that makes an event adds its callbacks too: for each
 * endpoint that wants it, and for the URL that the buyer of the call gave. No method here adds one.
 *
 * - `payment.settled`, `payment.unresolved`: the payment's state became so.
 * - `dead_letter`: a call became a dead letter.
 * - `call.finished`: a call succeeded, as its client is told, or became a dead letter.
 *
 * Modules of other parts announce further events, and that a call ended in another way. Buyers get `call.finished`, and
 * what is announced to them.
 */
export interface CallbackLedger {
  /** Replaces the endpoints of the operator. Callbacks that were added for others stay. */
  useCallbackEndpoints(endpoints: readonly CallbackEndpoint[]): Promise<void>;

  /**
   * Lists callbacks that are due, oldest first in each host: at most `perHost` of each of at most `hosts` hosts, which are
   * in order and come after the host `after`.
   */
  listDueCallbacks(page: {
    readonly hosts: number;
    readonly perHost: number;
    readonly after: string;
  }): Promise<Callback[]>;

  /**
   * Records what became of an attempt, and forgets some callbacks that ended long ago.
   * @param attempts attempts at the callback before this attempt
   * @returns the callback; undefined if it is not pending, or another process has recorded this attempt
   */
  endCallback(id: number, attempts: number, outcome: CallbackOutcome): Promise<Callback | undefined>;

  /**
   * Makes a callback due now, and gives a dead one as much time again.
   * @returns the callback as it is; undefined if there is none
   */
  retryCallback(id: number): Promise<{ readonly retried: boolean; readonly callback: Callback } | undefined>;

  /** Lists callbacks for the operator, newest first. `before` is the `id` to page from. */
  listCallbacks(filter: {
    readonly state?: CallbackState | undefined;
    readonly callId?: number | undefined;
    readonly limit: number;
    readonly before?: number | undefined;
  }): Promise<Callback[]>;
}

/** Header in which a buyer gives the URL, and the name of the note that the payment keeps it in. */
export const CALLBACK_URL = "Callback-URL";

/** `dead`: given up. */
export type CallbackState = "pending" | "sent" | "dead";

/** Callbacks of the store. Those that ended are forgotten after a week. */
export interface CallbackCounts {
  readonly states: Readonly<Record<CallbackState, number>>;
  /** Event of the callback that is pending longest, Unix milliseconds. */
  readonly oldestAt?: number;
}

/** Time from the event, or from the operator's retry, in which a callback is tried. */
export const CALLBACK_TRIED_MS = 3 * 86_400_000;
/** Time for which ended callbacks are kept. */
export const CALLBACK_KEPT_MS = 7 * 86_400_000;

/** URL of the operator. */
export interface CallbackEndpoint {
  readonly url: string;
  readonly events: readonly string[];
}

export interface Callback {
  /** Rises with time. */
  readonly id: number;
  readonly event: string;
  readonly callId: number;
  /** When the event happened, Unix milliseconds. */
  readonly at: number;
  /** JSON object that describes the event. */
  readonly data: string;
  readonly url: string;
  /** Name or address, with the port unless it is the scheme's own. */
  readonly host: string;
  /** The buyer of the call gave the URL. */
  readonly isBuyers: boolean;
  readonly state: CallbackState;
  /** Requests whose outcomes are known. */
  readonly attempts: number;
  /** Next request while it is pending, Unix milliseconds. */
  readonly dueAt: number;
  /** Why the last request failed. */
  readonly reason?: string;
  /** Unix milliseconds. */
  readonly endedAt?: number;
}

/** `later` ends a callback that was tried for {@link CALLBACK_TRIED_MS}. */
export type CallbackOutcome =
  | { readonly kind: "sent" }
  | { readonly kind: "dead"; readonly reason: string }
  | { readonly kind: "later"; readonly delayMs: number; readonly reason: string };
