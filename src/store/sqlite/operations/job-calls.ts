import type { JobCallOrigin } from "../../../core/job-call.ts";
import type { BuriedCall, JobResult } from "../../contract/work-queue.ts";
import type { Capacity, NewCall } from "../../new-call.ts";
import type { PaymentRow } from "../../payment-row.ts";
import type { Database, Statement } from "../driver.ts";

/** Columns that are kept once a paid JobCall's row is gone. */
interface FinishedCall {
  readonly call_id: number;
  readonly origin: JobCallOrigin;
  readonly attempts: number;
  readonly enqueued_at: number;
}

/** Adds, buries and removes rows of `job_calls`, and keeps the count of unfinished ones. */
export class JobCalls {
  readonly #capacity: Capacity;
  readonly #insertCall: Statement<unknown>;
  readonly #insertBody: Statement<unknown>;
  readonly #bury: Statement<unknown>;
  readonly #deleteCall: Statement<unknown>;
  readonly #deleteHeldCall: Statement<unknown>;
  readonly #insertKept: Statement<unknown>;
  readonly #deleteBody: Statement<unknown>;
  readonly #insertResult: Statement<unknown>;

  constructor(database: Database, capacity: Capacity) {
    this.#capacity = capacity;
    this.#insertCall = database.prepare(
      "INSERT INTO job_calls (origin, job_id, service_id, state, enqueued_at) VALUES (?, ?, ?, ?, ?)",
    );
    this.#insertBody = database.prepare("INSERT INTO job_bodies (call_id, encoded) VALUES (?, ?)");
    this.#bury = database.prepare(
      `UPDATE job_calls
          SET state = 'dead', dead_at = ?, dead_reason = ?, visible_at = NULL, lease_token = NULL, subscriber = NULL
        WHERE call_id = ?`,
    );
    this.#deleteCall = database.prepare("DELETE FROM job_calls WHERE call_id = ?");
    this.#deleteHeldCall = database.prepare("DELETE FROM job_calls WHERE call_id = ? AND state = 'held'");
    this.#insertKept = database.prepare(
      `INSERT INTO job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
       VALUES (?, 'x402', ?, ?, 'ready', ?)`,
    );
    this.#deleteBody = database.prepare("DELETE FROM job_bodies WHERE call_id = ?");
    this.#insertResult = database.prepare(
      `INSERT INTO results (call_id, state, attempt, enqueued_at, finished_at, body, content_type)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
  }

  hasRoom(): boolean {
    return this.#capacity.hasRoom();
  }

  /** @returns the new call id */
  insert(call: NewCall, state: "held" | "ready", now: number): number {
    const row = this.#insertCall.run([call.origin, call.jobId, call.serviceId, state, now]);
    const callId = Number(row.lastInsertRowid);
    this.#insertBody.run([callId, call.encoded]);
    this.#capacity.adjust(1);
    return callId;
  }

  /** Makes a JobCall a dead letter. */
  bury(callId: number, reason: string, now: number): BuriedCall {
    this.#bury.run([now, reason, callId]);
    this.#capacity.adjust(-1);
    return { callId, reason, deadAt: now };
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
    this.#deleteBody.run([callId]);
  }

  /** Removes an acked JobCall; its result is kept if it was paid for. */
  succeed(call: FinishedCall, now: number, result: JobResult | undefined): void {
    this.#delete(call.call_id);
    this.#capacity.adjust(-1);
    this.#keepResult(call, "succeeded", now, result);
  }

  /** Removes a dead letter, which does not count as unfinished. */
  drop(call: FinishedCall, deadAt: number): void {
    this.#delete(call.call_id);
    this.#keepResult(call, "failed", deadAt, undefined);
  }

  #delete(callId: number): void {
    this.#deleteCall.run([callId]);
    this.#deleteBody.run([callId]);
  }

  #keepResult(
    { call_id, origin, attempts, enqueued_at }: FinishedCall,
    state: "succeeded" | "failed",
    finishedAt: number,
    result: JobResult | undefined,
  ): void {
    if (origin !== "x402") return;
    const { body = null, contentType = null } = result ?? {};
    this.#insertResult.run([call_id, state, attempts, enqueued_at, finishedAt, body, contentType]);
  }
}
