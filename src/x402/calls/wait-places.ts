import { GatewayError } from "../../core/errors.ts";

/** Limit on waits in this process. Each wait is a connection, a timer and a read of the store every second. */
const MAX_WAITS = 10_000;
/** Limit on waits of one buyer, session or call, so that others find a place. */
export const MAX_WAITS_OF_ONE = 20;

/** A client that waits for a paid call to change, and has proved that the call is its own. */
interface Waiter {
  readonly callId: number;
  /** Account that paid for the call. Undefined if the job makes every buyer wait, so that the wait uses no buyer's place. */
  readonly payer?: string | undefined;
  /** ID of the client's session, in a protocol that has sessions. */
  readonly session?: string | undefined;
}

/** Places for clients that wait for paid calls, over all protocols and routes. */
export class WaitPlaces {
  readonly #taken = new Map<string, number>();
  #total = 0;

  /** Takes a place until the returned function is called. @returns undefined if no place is free for this client */
  take({ callId, payer, session }: Waiter): (() => void) | undefined {
    const holders = payer === undefined ? [] : [`call ${callId}`, `payer ${payer}`];
    if (session !== undefined) holders.push(`session ${session}`);
    const isFull = holders.some((holder) => (this.#taken.get(holder) ?? 0) >= MAX_WAITS_OF_ONE);
    if (isFull || this.#total >= MAX_WAITS) return undefined;
    this.#add(holders, 1);
    let isFree = false;
    return () => {
      if (!isFree) this.#add(holders, -1);
      isFree = true;
    };
  }

  #add(holders: readonly string[], change: 1 | -1): void {
    this.#total += change;
    for (const holder of holders) {
      const taken = (this.#taken.get(holder) ?? 0) + change;
      if (taken === 0) this.#taken.delete(holder);
      else this.#taken.set(holder, taken);
    }
  }
}

/** Refusal of a client for which no place is free. */
export function tooManyWaits(): GatewayError {
  return new GatewayError(
    "too_many_waits",
    `Too many requests already wait for results, in all or for this call, buyer or session (at most ${MAX_WAITS_OF_ONE}). Read the call's state instead, or try again in 5 s.`,
    { headers: { "retry-after": "5" } },
  );
}
