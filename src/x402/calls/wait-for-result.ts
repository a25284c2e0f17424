import type { Logger } from "pino";
import { GatewayError } from "../../core/errors.ts";
import type { WhatHappened } from "../../core/events.ts";
import type { CallLookup, CallState, NOT_KEPT, StoredResult } from "../../store/contract/call-lookup.ts";
import { hasResult } from "./call-answer.ts";
import type { LiveAnswer, LiveAnswers } from "./live-answers.ts";
import type { WaitPlaces } from "./wait-places.ts";
import type { CallWatch } from "./watch.ts";

type WaitOutcome =
  /** `result` is undefined if the runner gave no result. */
  | {
      readonly kind: "answered";
      readonly call: CallState;
      readonly result: StoredResult | typeof NOT_KEPT | undefined;
    }
  /** The runner's answer has begun, and the client can receive it while it arrives. */
  | { readonly kind: "begun"; readonly call: CallState; readonly answer: LiveAnswer }
  /** The job failed, did not finish in time, or the client hung up. `call` is undefined if it could not be read. */
  | { readonly kind: "not_in_time"; readonly call: CallState | undefined }
  /** The client could not wait, because no place was free. */
  | { readonly kind: "not_waited" };

/** A paid call whose result a request waits for. */
interface Awaited extends Pick<CallState, "callId" | "payment"> {
  /** Undefined if, as far as the request knows, the payment is not settled. */
  readonly settlement?: object | undefined;
}

/** Holds requests until their paid calls have a result. */
export class ResultWaits {
  readonly #calls: Pick<CallLookup, "findCall" | "findResult">;
  readonly #watch: CallWatch;
  readonly #places: WaitPlaces;
  readonly #logger: Logger;

  constructor(parts: {
    readonly calls: Pick<CallLookup, "findCall" | "findResult">;
    readonly watch: CallWatch;
    readonly places: WaitPlaces;
    readonly logger: Logger;
  }) {
    this.#calls = parts.calls;
    this.#watch = parts.watch;
    this.#places = parts.places;
    this.#logger = parts.logger;
  }

  /**
   * Waits for the result of a paid call, for `waitSecs` at most, until `closed` aborts or the watch stops. Never rejects,
   * because the call is paid for, and a failed wait must not look like a refusal.
   * @param options `isOfJob`: the job makes every buyer wait, so the wait uses none of the buyer's places; `isNew`: the call
   *   has just begun; `live`: answers that the client can receive while they arrive
   */
  async waitFor(
    { callId, payment, settlement }: Awaited,
    waitSecs: number,
    closed: AbortSignal,
    {
      isOfJob = false,
      isNew = false,
      live,
    }: { readonly isOfJob?: boolean; readonly isNew?: boolean; readonly live?: LiveAnswers | undefined } = {},
  ): Promise<WaitOutcome> {
    const leave = this.#places.take({ callId, payer: isOfJob ? undefined : payment.payer });
    if (leave === undefined) return { kind: "not_waited" };
    const over = new AbortController();
    const end = () => over.abort();
    const timer = setTimeout(end, waitSecs * 1_000);
    if (closed.aborted) end();
    closed.addEventListener("abort", end);
    const calls = this.#calls;
    let begun: LiveAnswer | undefined;
    const stopListening = live?.onBegun(callId, closed, (answer) => {
      begun = answer;
      end();
    });
    let last: CallState | undefined;
    let found: ReturnType<CallLookup["findResult"]> | undefined;
    const look = () => {
      const call = calls.findCall(callId);
      found = calls.findResult(callId);
      found.catch(() => undefined);
      return call;
    };
    try {
      const wakes = endsWait(settlement !== undefined);
      for await (const call of this.#watch.states(callId, over.signal, { wakes, isNew, look })) {
        last = call;
        // Another replica may have stored a result between the two lookups.
        if (hasResult(call))
          return { kind: "answered", call, result: (await found) ?? (await calls.findResult(callId)) };
        // The parts' reaction to the failure may take longer than the wait.
        if (call.state === "failed") return { kind: "not_in_time", call };
      }
      // The call is read again, because changes that could not end the wait did not cause a lookup.
      const call = (await calls.findCall(callId)) ?? last;
      if (begun === undefined || call === undefined) return { kind: "not_in_time", call };
      const answer = begun;
      begun = undefined;
      return { kind: "begun", call, answer };
    } catch (error) {
      if (!(error instanceof GatewayError))
        this.#logger.error({ err: error, callId }, "could not wait for a result");
      return { kind: "not_in_time", call: last };
    } finally {
      clearTimeout(timer);
      closed.removeEventListener("abort", end);
      stopListening?.();
      begun?.bytes(AbortSignal.abort());
      leave();
    }
  }
}

/**
 * Returns a function that returns true for changes of a call that can end the wait for its result, so that the call is read
 * only then.
 * @param isSettled true if the payment is settled; otherwise the result waits for the charge
 */
function endsWait(isSettled: boolean): (what: WhatHappened) => boolean {
  let isCharged = isSettled;
  return (what) => {
    if (what.kind === "acked") return isCharged;
    if (what.kind !== "paymentDecided") return what.kind === "deadLettered" || what.kind === "dropped";
    const isDecided = what.state !== "settling";
    isCharged ||= isDecided;
    return isDecided;
  };
}
