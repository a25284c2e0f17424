import type { PaymentIntent } from "../../../core/payment.ts";
import type { Charge, DecidedCharge, JobResult } from "../../contract/work-queue.ts";
import type { EndedCall } from "../../machine/changes.ts";
import { decidedCharge } from "../../machine/metered.ts";
import type { Capacity, NewCall } from "../../new-call.ts";
import { chargedUnits } from "../../rules/charges.ts";
import type { Database, Statement } from "../driver.ts";
import type { SqliteEffects } from "./effects.ts";
import type { NewCalls } from "./new-calls.ts";

/** Columns of a JobCall that its result is kept with. */
interface KeptColumns extends EndedCall {
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

const FINISHED_COLUMNS = `call_id, origin, job_id, service_id, attempts, enqueued_at, subscriber, claimed_at, history,
  head, state, finished_at, reason`;
const COPIED_COLUMNS = `call_id, origin, job_id, service_id, attempts, enqueued_at, subscriber, claimed_at, history,
  substr(encoded, 1, head_bytes)`;

/** Adds, buries and removes rows of `job_calls`, and keeps the count of unfinished ones. */
export class JobCalls {
  readonly #capacity: Capacity;
  readonly #newCalls: NewCalls;
  readonly #effects: SqliteEffects;
  readonly #deleteCalls: Statement<unknown>;
  readonly #deleteBodies: Statement<unknown>;
  readonly #insertSucceeded: Statement<unknown>;
  readonly #insertDropped: Statement<unknown>;
  readonly #insertResult: Statement<unknown>;
  readonly #insertFailure: Statement<unknown>;

  constructor(database: Database, capacity: Capacity, newCalls: NewCalls, effects: SqliteEffects) {
    this.#effects = effects;
    this.#capacity = capacity;
    this.#newCalls = newCalls;
    this.#deleteCalls = database.prepare(
      "DELETE FROM job_calls WHERE call_id IN (SELECT value FROM json_each(?))",
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
    const effects = this.#effects;
    effects.readPayments(finished.map(({ call }) => call));
    this.#insertSucceeded.run([JSON.stringify(finished.map(({ call, now }) => [call.call_id, now]))]);
    this.#delete(finished.map(({ call }) => call.call_id));
    this.#capacity.adjust(-finished.length);
    for (const { call, now, result, charge } of finished) {
      const { call_id: callId, ceiling } = call;
      const amount = ceiling === null ? null : chargedUnits(ceiling, charge);
      const decided = amount === null ? undefined : decidedCharge(effects.payment(callId), amount);
      if (decided !== undefined) charges.set(callId, decided);
      if (call.origin === "x402") this.#keepResult(call, now, result, amount);
      effects.note({ kind: "finished", call, charge: amount, at: now });
    }
    effects.forgetPayments();
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

  #keepResult(
    { call_id, attempts, enqueued_at }: KeptColumns,
    now: number,
    result: JobResult | undefined,
    charge: string | null,
  ): void {
    const { body = null, contentType = null } = result ?? {};
    this.#insertResult.run([call_id, attempts, enqueued_at, now, body, contentType, charge]);
  }
}
