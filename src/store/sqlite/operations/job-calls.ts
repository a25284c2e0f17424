import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { PaymentIntent } from "../../../core/payment.ts";
import { GROUPED_CHARACTERS } from "../../contract/dead-letter-box.ts";
import type { BuriedCall, Charge, DecidedCharge, JobResult } from "../../contract/work-queue.ts";
import type { Capacity, NewCall } from "../../new-call.ts";
import type { PaymentRow } from "../../payment-row.ts";
import { LEASE_EXPIRED, MAX_STEP_REASON, MAX_STEPS } from "../../rules/call-steps.ts";
import { chargedState, chargedUnits } from "../../rules/charges.ts";
import { usedUpReason } from "../../rules/leases.ts";
import type { Database, Statement } from "../driver.ts";
import type { NewCalls } from "./new-calls.ts";

/** Columns of a paid JobCall that its result is kept with. */
interface KeptColumns {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly attempts: number;
  readonly enqueued_at: number;
  readonly ceiling: string | null;
}

/** A JobCall that was acked at the time `now`. */
export interface FinishedCall {
  readonly call: KeptColumns;
  readonly now: number;
  readonly result: JobResult | undefined;
  readonly charge: Charge | undefined;
}

/** SQL that adds a JSON object to a call's history, in place of the oldest step if there are too many. */
export function appendStep(step: string): string {
  return `json_insert(iif(json_array_length(history) >= ${MAX_STEPS}, json_remove(history, '$[0]'), ifnull(history, '[]')),
    '$[#]', ${step})`;
}

/** SQL of a step for the delivery that the row is leased for. @param to @param reason SQL */
export function deliveryStep({ to, reason }: { readonly to: string; readonly reason: string }): string {
  return `json_object('kind', 'delivery', 'attempt', attempts, 'subscriber', ifnull(subscriber, ''),
    'from', claimed_at, 'to', min(${to}, visible_at), 'reason', substr(${reason}, 1, ${MAX_STEP_REASON}))`;
}

const FINISHED_COLUMNS = `call_id, origin, job_id, service_id, attempts, enqueued_at, subscriber, claimed_at, history,
  head, state, finished_at, reason`;
const COPIED_COLUMNS = `call_id, origin, job_id, service_id, attempts, enqueued_at, subscriber, claimed_at, history,
  substr(encoded, 1, head_bytes)`;

/** Adds, buries and removes rows of `job_calls`, and keeps the count of unfinished ones. */
export class JobCalls {
  readonly #capacity: Capacity;
  readonly #newCalls: NewCalls;
  readonly #bury: Statement<unknown>;
  readonly #selectLastReason: Statement<{ reason: string | null }>;
  readonly #deleteCalls: Statement<unknown>;
  readonly #deleteHeldCall: Statement<unknown>;
  readonly #insertKept: Statement<unknown>;
  readonly #deleteBodies: Statement<unknown>;
  readonly #insertSucceeded: Statement<unknown>;
  readonly #insertDropped: Statement<unknown>;
  readonly #insertResult: Statement<unknown>;
  readonly #insertFailure: Statement<unknown>;
  readonly #selectAuthorized: Statement<Omit<DecidedCharge, "state" | "amount">>;

  constructor(database: Database, capacity: Capacity, newCalls: NewCalls) {
    this.#capacity = capacity;
    this.#newCalls = newCalls;
    this.#bury = database.prepare(
      `UPDATE job_calls
          SET state = 'dead', dead_at = ?1, dead_reason = ?2,
              dead_group = origin || ' ' || service_id || ' ' || job_id || ' ' || substr(?2, 1, ${GROUPED_CHARACTERS}),
              history = iif(state = 'leased', ${appendStep(deliveryStep({ to: "?1", reason: "?3" }))}, history),
              visible_at = NULL, lease_token = NULL, subscriber = NULL, claimed_at = NULL
        WHERE call_id = ?4`,
    );
    this.#selectLastReason = database.prepare(
      "SELECT history ->> '$[#-1].reason' AS reason FROM job_calls WHERE call_id = ? AND state <> 'leased'",
    );
    this.#deleteCalls = database.prepare(
      "DELETE FROM job_calls WHERE call_id IN (SELECT value FROM json_each(?))",
    );
    this.#deleteHeldCall = database.prepare("DELETE FROM job_calls WHERE call_id = ? AND state = 'held'");
    this.#insertKept = database.prepare(
      `INSERT INTO job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
       VALUES (?, 'x402', ?, ?, 'ready', ?)`,
    );
    this.#deleteBodies = database.prepare(
      "DELETE FROM job_bodies WHERE call_id IN (SELECT value FROM json_each(?))",
    );
    this.#insertSucceeded = database.prepare(
      `INSERT INTO finished_calls (${FINISHED_COLUMNS})
       SELECT ${COPIED_COLUMNS}, 'succeeded', finished.value ->> 1, NULL FROM json_each(?) AS finished
        CROSS JOIN job_calls ON call_id = finished.value ->> 0 CROSS JOIN job_bodies USING (call_id)`,
    );
    this.#insertDropped = database.prepare(
      `INSERT INTO finished_calls (${FINISHED_COLUMNS})
       SELECT ${COPIED_COLUMNS}, 'failed', dead_at, dead_reason
         FROM job_calls CROSS JOIN job_bodies USING (call_id) WHERE call_id = ?`,
    );
    this.#insertResult = database.prepare(
      `INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, body, content_type, charge)
       VALUES (?, 'succeeded', ?, ?, ?, ?, ?, ?)`,
    );
    this.#insertFailure = database.prepare(
      `INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, reason)
       SELECT call_id, 'failed', attempts, enqueued_at, dead_at, dead_reason
         FROM job_calls WHERE call_id = ? AND origin = 'x402'`,
    );
    this.#selectAuthorized = database.prepare(
      "SELECT network, asset, symbol, payer FROM payments WHERE call_id = ? AND state = 'authorized'",
    );
  }

  /** Finds what a charge of a JobCall decides, before the change. @returns undefined unless its payment is open, by use */
  findCharge(callId: number, amount: string): DecidedCharge | undefined {
    const payment = this.#selectAuthorized.get([callId]);
    if (payment === undefined) return undefined;
    // libsql adds a property of its own to rows.
    const { network, asset, symbol, payer } = payment;
    return { network, asset, symbol, payer, state: chargedState(amount), amount };
  }

  hasRoom(): boolean {
    return this.#capacity.hasRoom();
  }

  /** Number of JobCalls for which there is room. */
  room(): number {
    return this.#capacity.room();
  }

  /** @returns the new call id */
  add(
    call: NewCall,
    state: "held" | "ready",
    now: number,
    byUse?: Pick<PaymentIntent, "ceiling" | "minCharge">,
  ): number {
    this.#capacity.adjust(1);
    return this.#newCalls.add(call, state, now, byUse);
  }

  /**
   * Makes a JobCall a dead letter.
   * @param endedBy why its delivery ended, if it is leased
   */
  bury(callId: number, reason: string, now: number, endedBy = LEASE_EXPIRED): BuriedCall {
    const released = this.findCharge(callId, "0");
    this.#bury.run([now, reason, endedBy, callId]);
    this.#capacity.adjust(-1);
    return { callId, reason, deadAt: now, ...(released && { released }) };
  }

  /** Makes a JobCall that has used up its attempts a dead letter, with what its last delivery met. */
  buryUsedUp(callId: number, now: number): BuriedCall {
    return this.bury(callId, usedUpReason(this.#selectLastReason.get([callId])?.reason), now);
  }

  /** Notes that a dead letter is unfinished again. The operator decided that: it may exceed max_pending. */
  revived(): void {
    this.#capacity.adjust(1);
  }

  /** Takes the JobCall of a failed payment out of the queue, and keeps its body. */
  removeHeld(callId: number): void {
    this.#deleteHeldCall.run([callId]);
    this.#capacity.adjust(-1);
  }

  /** Queues the JobCall of a failed payment that turned out paid. */
  requeueKept({ call_id, job_index, service_id }: PaymentRow, now: number): void {
    this.#insertKept.run([call_id, String(job_index), service_id, now]);
    this.#capacity.adjust(1);
  }

  dropBody(callId: number): void {
    this.#deleteBodies.run([JSON.stringify([callId])]);
  }

  /**
   * Removes acked JobCalls. How they ended is kept, and the results of those that were paid for.
   * @returns the charges that this decided, by call ID
   */
  succeed(finished: readonly FinishedCall[]): ReadonlyMap<number, DecidedCharge> {
    const charges = new Map<number, DecidedCharge>();
    if (finished.length === 0) return charges;
    for (const { call, charge } of finished) {
      const { call_id: callId, ceiling } = call;
      const decided = ceiling === null ? undefined : this.findCharge(callId, chargedUnits(ceiling, charge));
      if (decided !== undefined) charges.set(callId, decided);
    }
    this.#insertSucceeded.run([JSON.stringify(finished.map(({ call, now }) => [call.call_id, now]))]);
    this.#delete(finished.map(({ call }) => call.call_id));
    this.#capacity.adjust(-finished.length);
    for (const call of finished) this.#keepResult(call);
    return charges;
  }

  /** Removes a dead letter, which does not count as unfinished. How it failed is kept. */
  drop(callId: number): void {
    this.#insertDropped.run([callId]);
    this.#insertFailure.run([callId]);
    this.#delete([callId]);
  }

  #delete(callIds: readonly number[]): void {
    const json = JSON.stringify(callIds);
    this.#deleteCalls.run([json]);
    this.#deleteBodies.run([json]);
  }

  #keepResult({ call, now, result, charge }: FinishedCall): void {
    const { call_id, origin, attempts, enqueued_at, ceiling } = call;
    if (origin !== "x402") return;
    const { body = null, contentType = null } = result ?? {};
    const charged = ceiling === null ? null : chargedUnits(ceiling, charge);
    this.#insertResult.run([call_id, attempts, enqueued_at, now, body, contentType, charged]);
  }
}
