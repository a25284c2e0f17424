import type { AcceptOnceOutcome, AcceptOutcome, Delivery } from "../contract/intake.ts";
import { ORDERING } from "../modules/modules.ts";
import type { Capacity, KeyOrder, NewCall } from "../new-call.ts";
import type { Rows } from "../rows.ts";

/** Number of expired keys that are deleted for each new key. It is above 1, so that expired keys never pile up. */
export const FORGOTTEN_AT_ONCE = 10;

/** A remembered key of an earlier delivery. */
export interface DeliveryRow {
  readonly key: string;
  readonly body_hash: string;
  readonly call_id: number;
  /** Unix milliseconds. */
  readonly expires_at: number;
}

/** Rows that the acceptance of JobCalls reads and writes. */
export interface IntakeRows {
  /** Adds a ready JobCall. @returns its ID */
  add(call: NewCall, now: number): number;
  /** Withholds a JobCall that was added in the commit until its order makes it ready. */
  withhold(callId: number, order: KeyOrder): void;
  /** Finds a key, even an expired key, including the commit's changes so far. */
  find(key: string): DeliveryRow | undefined;
  /** Writes a key, replacing an earlier row of the key. @param identifies true if the key identifies the delivery */
  remember(row: DeliveryRow, identifies: boolean): void;
}

/** Operations of the Intake. */
export class IntakeSteps {
  readonly #rows: IntakeRows;
  readonly #capacity: Capacity;
  readonly #ofModules: Rows;

  constructor(rows: IntakeRows, capacity: Capacity, ofModules: Rows) {
    this.#rows = rows;
    this.#capacity = capacity;
    this.#ofModules = ofModules;
  }

  accept(now: number, call: NewCall): AcceptOutcome {
    const { order } = call;
    if (!this.#capacity.hasRoom()) return { kind: "queue_full" };
    const place = order === undefined ? "first" : ORDERING?.add(order, this.#ofModules);
    if (place === "refused") return { kind: "key_paused" };
    this.#capacity.adjust(1);
    const callId = this.#rows.add(call, now);
    if (order !== undefined && place === "waits") this.#rows.withhold(callId, order);
    return { kind: "accepted", callId };
  }

  acceptOnce(now: number, call: NewCall, delivery: Delivery): AcceptOnceOutcome {
    const repeat = this.#repeatOf(delivery, now);
    if (repeat !== undefined) return repeat;
    const outcome = this.accept(now, call);
    if (outcome.kind !== "accepted") return outcome;
    const row = {
      body_hash: delivery.bodyHash,
      call_id: outcome.callId,
      expires_at: now + delivery.windowMs,
    };
    for (const { key, identifies } of delivery.keys) this.#rows.remember({ key, ...row }, identifies);
    return outcome;
  }

  /**
   * Decides whether a delivery repeats an earlier delivery.
   * @returns undefined for a new delivery
   */
  #repeatOf(
    { keys, bodyHash }: Delivery,
    now: number,
  ): Extract<AcceptOnceOutcome, { kind: "duplicate" | "conflict" }> | undefined {
    const found = keys
      .flatMap(({ key, identifies }) => (identifies ? (this.#rows.find(key) ?? []) : []))
      .filter(({ expires_at }) => expires_at > now);
    const [first] = found;
    if (first === undefined) return undefined;
    return found.every(({ body_hash }) => body_hash === bodyHash)
      ? { kind: "duplicate", callId: first.call_id }
      : { kind: "conflict" };
  }
}
