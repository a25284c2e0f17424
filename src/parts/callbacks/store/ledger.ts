/**
 * Requests that notify operators and buyers of events. The write that makes an event also adds its callbacks: for each
 * endpoint that subscribes to it, and for the URL that the buyer of the call gave. So no method here adds a callback.
 *
 * - `payment.settled`, `payment.unresolved`: the payment reached this state.
 * - `dead_letter`: a call became a dead letter.
 * - `call.finished`: a call succeeded from its client's point of view, or became a dead letter.
 *
 * Modules of other parts announce further events, and other ends of calls. Buyers get `call.finished`, and events that are
 * announced to them.
 */
export interface CallbackLedger {
  /** Replaces the endpoints of the operator. Callbacks that were added for other endpoints stay. */
  useCallbackEndpoints(endpoints: readonly CallbackEndpoint[]): Promise<void>;

  /**
   * Lists due callbacks, oldest first within each host. Returns at most `perHost` callbacks for each of the first `hosts`
   * hosts after the host `after`, in order.
   */
  listDueCallbacks(page: {
    readonly hosts: number;
    readonly perHost: number;
    readonly after: string;
  }): Promise<Callback[]>;

  /**
   * Records the outcome of an attempt, and deletes some callbacks that ended long ago.
   * @param attempts attempts at the callback before this attempt
   * @returns the callback; undefined if it is not pending, or another process has recorded this attempt
   */
  endCallback(id: number, attempts: number, outcome: CallbackOutcome): Promise<Callback | undefined>;

  /**
   * Makes a callback due now. A dead callback gets the full time again.
   * @returns the callback; undefined if it does not exist
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

/** Header in which a buyer gives the URL, and name of the note in which the payment keeps the URL. */
export const CALLBACK_URL = "Callback-URL";

/** State of a callback. `dead`: given up. */
export type CallbackState = "pending" | "sent" | "dead";

/** Callbacks of the store. Callbacks that ended are deleted after a week. */
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
  /** Time of the event, Unix milliseconds. */
  readonly at: number;
  /** JSON object that describes the event. */
  readonly data: string;
  readonly url: string;
  /** Name or address, with the port unless it is the scheme's own. */
  readonly host: string;
  /** True if the buyer of the call gave the URL. */
  readonly isBuyers: boolean;
  readonly state: CallbackState;
  /** Number of requests whose outcomes are known. */
  readonly attempts: number;
  /** Time of the next request while the callback is pending, Unix milliseconds. */
  readonly dueAt: number;
  /** Reason why the last request failed. */
  readonly reason?: string;
  /** Unix milliseconds. */
  readonly endedAt?: number;
}

/** `later` ends a callback that was tried for {@link CALLBACK_TRIED_MS}. */
export type CallbackOutcome =
  | { readonly kind: "sent" }
  | { readonly kind: "dead"; readonly reason: string }
  | { readonly kind: "later"; readonly delayMs: number; readonly reason: string };
