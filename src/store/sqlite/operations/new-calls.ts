import type { PaymentIntent } from "../../../core/payment.ts";
import { type NewCall, packBytes } from "../../new-call.ts";
import type { Database, Statement } from "../driver.ts";

/** Lease of a claim, as its JobCalls share it. */
interface ClaimLease {
  readonly subscriber: string;
  readonly claimedAt: number;
  readonly expiresAt: number;
}

/** A JobCall that is not written yet. */
interface UnwrittenCall {
  readonly callId: number;
  readonly call: NewCall;
  readonly state: "held" | "ready";
  readonly enqueuedAt: number;
  /** Null unless it is charged after it ran. */
  readonly ceiling: string | null;
  readonly minCharge: string | undefined;
  leaseToken?: string;
  lease?: ClaimLease;
}

/** Largest JobCall that is written with others: of larger ones, the further copies cost more than a statement. */
const MAX_GROUPED_BYTES = 8 * 1024;

/**
 * JobCalls that the running batch accepted. They are written once, at its end: a claim of the same batch leases them
 * before, which saves an update and all its index entries.
 */
export class NewCalls {
  readonly #setLastId: Statement<unknown>;
  readonly #insertLastId: Statement<unknown>;
  readonly #insertCalls: Statement<unknown>;
  readonly #insertBody: Statement<unknown>;
  readonly #insertBodies: Statement<unknown>;
  #unwritten: UnwrittenCall[] = [];
  /** Kept here as well: once a batch is committed, no failed read may make it a failed one. */
  #lastId: number;

  constructor(database: Database) {
    this.#lastId =
      database.prepare<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'job_calls'").get([])
        ?.seq ?? 0;
    this.#setLastId = database.prepare("UPDATE sqlite_sequence SET seq = ? WHERE name = 'job_calls'");
    this.#insertLastId = database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('job_calls', ?)");
    this.#insertCalls = database.prepare(
      `INSERT INTO job_calls
         (call_id, origin, job_id, service_id, state, attempts, visible_at, subscriber, claimed_at, enqueued_at, lease_token,
          ceiling, min_charge)
       SELECT ?1 + key, ?2, ?3, ?4, ?5, ?5 = 'leased', ?6, ?7, ?8, value ->> 0, value ->> 1, value ->> 2, value ->> 3
         FROM json_each(?9)`,
    );
    this.#insertBody = database.prepare(
      "INSERT INTO job_bodies (call_id, encoded, head_bytes) VALUES (?, ?, ?)",
    );
    // The substr of an empty BLOB is NULL.
    this.#insertBodies = database.prepare(
      `INSERT INTO job_bodies (call_id, encoded, head_bytes)
       SELECT ?1 + key, ifnull(substr(?2, value ->> 0, value ->> 1), x''), value ->> 2 FROM json_each(?3)`,
    );
  }

  /** Highest call ID that was given out. */
  get lastId(): number {
    return this.#lastId;
  }

  /** Gives out no call ID up to this one. */
  skipTo(lastId: number): void {
    if (lastId <= this.#lastId) return;
    if (this.#setLastId.run([lastId]).changes === 0) this.#insertLastId.run([lastId]);
    this.#lastId = lastId;
  }

  /**
   * @param payment payment of a JobCall that is paid for
   * @returns the call ID
   */
  add(
    call: NewCall,
    state: "held" | "ready",
    enqueuedAt: number,
    payment?: Pick<PaymentIntent, "charge" | "amount" | "minCharge">,
  ): number {
    // IDs count up, and nobody else writes meanwhile.
    this.#lastId += 1;
    const callId = this.#lastId;
    const ceiling = payment === undefined || payment.charge === "before" ? null : payment.amount;
    this.#unwritten.push({ callId, call, state, enqueuedAt, ceiling, minCharge: payment?.minCharge });
    return callId;
  }

  /**
   * Leases the oldest ready JobCalls.
   * @param jobs no `jobIds` means all jobs but those of `except`
   */
  lease(
    { jobIds, except }: { readonly jobIds: readonly bigint[]; readonly except: readonly bigint[] },
    limit: number,
    { nextToken, ...lease }: ClaimLease & { nextToken(): string },
  ): (UnwrittenCall & { readonly leaseToken: string })[] {
    const wanted = new Set(jobIds.map(String));
    const excepted = new Set(except.map(String));
    const isWanted = ({ jobId }: NewCall) => (wanted.size === 0 ? !excepted.has(jobId) : wanted.has(jobId));
    return this.#unwritten
      .filter((entry) => entry.state === "ready" && entry.lease === undefined && isWanted(entry.call))
      .slice(0, limit)
      .map((call) => Object.assign(call, { lease, leaseToken: nextToken() }));
  }

  /** Writes all of them, those of one job and one claim together. */
  write(): void {
    const unwritten = this.#unwritten;
    this.#unwritten = [];
    for (const group of groupsOf(unwritten)) this.#writeGroup(group);
  }

  /**
   * Forgets them: the batch is rolled back.
   * @param lastId the last ID before the batch
   */
  discard(lastId: number): void {
    this.#unwritten = [];
    this.#lastId = lastId;
  }

  #writeGroup(group: readonly UnwrittenCall[]): void {
    const [first] = group;
    if (first === undefined) return;
    const { callId, call, lease } = first;
    const { origin, jobId, serviceId } = call;
    const { expiresAt = null, subscriber = null, claimedAt = null } = lease ?? {};
    const state = lease === undefined ? first.state : "leased";
    const rows = JSON.stringify(
      group.map(({ enqueuedAt, leaseToken, ceiling, minCharge }) =>
        ceiling === null ? [enqueuedAt, leaseToken] : [enqueuedAt, leaseToken, ceiling, minCharge],
      ),
    );
    const columns = [origin, jobId, serviceId, state, expiresAt, subscriber, claimedAt];
    this.#insertCalls.run([callId, ...columns, rows]);
    if (group.length === 1) {
      this.#insertBody.run([callId, call.encoded, call.headBytes]);
      return;
    }
    const { buffer, views } = packBytes(group.map(({ call }) => call.encoded));
    // SQL counts from 1.
    const places = views.map(({ byteOffset, byteLength }, index) => [
      byteOffset + 1,
      byteLength,
      group[index]?.call.headBytes,
    ]);
    this.#insertBodies.run([callId, new Uint8Array(buffer), JSON.stringify(places)]);
  }
}

/** Cuts a list where the job, the state or the claim changes, and around each large JobCall. */
function groupsOf(calls: readonly UnwrittenCall[]): UnwrittenCall[][] {
  const groups: UnwrittenCall[][] = [];
  let last: UnwrittenCall | undefined;
  for (const entry of calls) {
    if (last !== undefined && isAlike(last, entry)) groups.at(-1)?.push(entry);
    else groups.push([entry]);
    last = entry;
  }
  return groups;
}

function isAlike(one: UnwrittenCall, other: UnwrittenCall): boolean {
  return (
    one.lease === other.lease &&
    one.state === other.state &&
    one.call.jobId === other.call.jobId &&
    one.call.serviceId === other.call.serviceId &&
    one.call.origin === other.call.origin &&
    Math.max(one.call.encoded.byteLength, other.call.encoded.byteLength) <= MAX_GROUPED_BYTES
  );
}
