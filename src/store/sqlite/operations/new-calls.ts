import { ceilingOf, type PaymentIntent } from "../../../core/payment.ts";
import {
  type DeliveryRow,
  FORGOTTEN_AT_ONCE,
  type IntakeRows,
  type IntakeSteps,
} from "../../machine/intake.ts";
import { type NewCall, packBytes } from "../../new-call.ts";
import { type Database, jsonOfTexts, prepareRows, type Statement } from "../driver.ts";
import type { BulkTable } from "../transaction.ts";
import type { SqliteRows } from "./modules.ts";

/** Lease of a claim, which the claim's JobCalls share. */
interface ClaimLease {
  readonly subscriber: string;
  readonly claimedAt: number;
  readonly expiresAt: number;
}

/** A JobCall that is not written yet. */
interface UnwrittenCall {
  readonly callId: number;
  readonly call: NewCall;
  state: "held" | "ready";
  readonly enqueuedAt: number;
  /** Null unless the JobCall is charged after it ran. */
  readonly ceiling: string | null;
  readonly minCharge: string | undefined;
  leaseToken?: string;
  lease?: ClaimLease;
}

/**
 * Size up to which a JobCall is written together with others. For a larger JobCall, the additional copies cost more than a
 * separate statement.
 */
const MAX_GROUPED_BYTES = 8 * 1024;

/**
 * JobCalls that the running batch accepted. They are written once, at the end of the batch. A claim of the same batch can
 * lease them before that, which saves an update and all its index entries.
 */
export class NewCalls {
  readonly #setLastId: Statement<unknown>;
  readonly #insertLastId: Statement<unknown>;
  readonly #insertCalls: Statement<unknown>;
  readonly #insertOrdered: Statement<unknown>;
  readonly #insertBody: Statement<unknown>;
  readonly #insertBodies: Statement<unknown>;
  #unwritten: UnwrittenCall[] = [];
  /** The ID is also kept here, because once a batch is committed, a failed read must not make the batch fail. */
  #lastId: number;

  constructor(database: Database) {
    this.#lastId =
      database.prepare<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'job_calls'").get([])
        ?.seq ?? 0;
    this.#setLastId = database.prepare("UPDATE sqlite_sequence SET seq = ? WHERE name = 'job_calls'");
    this.#insertLastId = database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('job_calls', ?)");
    const insertCalls = (columns: string, values: string, state = "?5") =>
      database.prepare(
        `INSERT INTO job_calls
         (call_id, origin, job_id, service_id, state, attempts, visible_at, subscriber, claimed_at, enqueued_at, lease_token,
          ${columns})
       SELECT ?1 + key, ?2, ?3, ?4, ${state}, ?5 = 'leased', ?6, ?7, ?8, value ->> 0, value ->> 1, ${values}
         FROM json_each(?9)`,
      );
    this.#insertCalls = insertCalls("ceiling, min_charge", "value ->> 2, value ->> 3");
    this.#insertOrdered = insertCalls("order_key", "value ->> 2", "ifnull(value ->> 3, ?5)");
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

  /** Skips all call IDs up to this one. */
  skipTo(lastId: number): void {
    if (lastId <= this.#lastId) return;
    if (this.#setLastId.run([lastId]).changes === 0) this.#insertLastId.run([lastId]);
    this.#lastId = lastId;
  }

  /**
   * @param payment the JobCall's payment, if it is paid for
   * @returns the call ID
   */
  add(
    call: NewCall,
    state: "held" | "ready",
    enqueuedAt: number,
    payment?: Pick<PaymentIntent, "charge" | "chargesBack" | "amount" | "minCharge">,
  ): number {
    // IDs count up, and no other connection writes during the transaction.
    this.#lastId += 1;
    const callId = this.#lastId;
    const ceiling = payment === undefined ? null : ceilingOf(payment);
    this.#unwritten.push({ callId, call, state, enqueuedAt, ceiling, minCharge: payment?.minCharge });
    return callId;
  }

  /** Sets the state of a JobCall that is not leased. @returns false if it was written before */
  setState(callId: number, state: "held" | "ready"): boolean {
    const first = this.#unwritten[0]?.callId ?? Number.POSITIVE_INFINITY;
    // A batch assigns its IDs in order.
    const call = this.#unwritten[callId - first];
    if (call !== undefined) call.state = state;
    return call !== undefined;
  }

  /** Finds the first JobCall that waits for other JobCalls of its key. */
  firstWaiting(orderKey: string): number | undefined {
    return this.#unwritten.find(({ call, state }) => state === "held" && call.order?.orderKey === orderKey)
      ?.callId;
  }

  /**
   * Leases the oldest ready JobCalls.
   * @param jobs `jobIds`, or all jobs except the jobs in `except`
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

  /** Writes all new calls. Calls of one job and one claim share a statement. */
  write(): void {
    const unwritten = this.#unwritten;
    this.#unwritten = [];
    for (const group of groupsOf(unwritten)) this.#writeGroup(group);
  }

  /**
   * Discards the new calls of a batch that is rolled back.
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
    const rows = jsonOfTexts(
      group.map(({ enqueuedAt, leaseToken, ceiling, minCharge, call: { order }, state }) => {
        if (order !== undefined)
          return [enqueuedAt, leaseToken, order.orderKey, ...(lease === undefined ? [state] : [])];
        return ceiling === null ? [enqueuedAt, leaseToken] : [enqueuedAt, leaseToken, ceiling, minCharge];
      }),
    );
    const columns = [origin, jobId, serviceId, state, expiresAt, subscriber, claimedAt];
    const insert = call.order === undefined ? this.#insertCalls : this.#insertOrdered;
    insert.run([callId, ...columns, rows]);
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

/** Cuts a list where the job, the claim or the state of JobCalls without a key changes, and around each large JobCall. */
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
    (one.state === other.state || one.call.order !== undefined) &&
    (one.call.order === undefined) === (other.call.order === undefined) &&
    one.call.jobId === other.call.jobId &&
    one.call.serviceId === other.call.serviceId &&
    one.call.origin === other.call.origin &&
    Math.max(one.call.encoded.byteLength, other.call.encoded.byteLength) <= MAX_GROUPED_BYTES
  );
}

/** Keys of deliveries that are accepted together. They are read together, and written together. */
export class SqliteIntakeRows implements IntakeRows {
  readonly #newCalls: NewCalls;
  readonly #select: (parameters: readonly [json: string]) => DeliveryRow[];
  readonly #upsert: Statement<unknown>;
  readonly #forgetExpired: Statement<unknown>;
  #known = new Map<string, DeliveryRow>();
  #unwritten = new Map<string, DeliveryRow>();

  constructor(database: Database, newCalls: NewCalls) {
    this.#newCalls = newCalls;
    this.#select = prepareRows<DeliveryRow>(
      database,
      ["key", "body_hash", "call_id", "expires_at"],
      "FROM deliveries WHERE key IN (SELECT value FROM json_each(?))",
    );
    this.#upsert = database.prepare(
      `INSERT OR REPLACE INTO deliveries (key, body_hash, call_id, expires_at)
       SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)`,
    );
    this.#forgetExpired = database.prepare(
      "DELETE FROM deliveries WHERE key IN (SELECT key FROM deliveries WHERE expires_at <= ? LIMIT ?)",
    );
  }

  read(keys: readonly string[]): void {
    this.#unwritten = new Map();
    this.#known = new Map(this.#select([JSON.stringify(keys)]).map((row) => [row.key, row]));
  }

  add(call: NewCall, now: number): number {
    return this.#newCalls.add(call, "ready", now);
  }

  withhold(callId: number): void {
    this.#newCalls.setState(callId, "held");
  }

  find(key: string): DeliveryRow | undefined {
    return this.#known.get(key);
  }

  remember(row: DeliveryRow): void {
    this.#known.set(row.key, row);
    this.#unwritten.set(row.key, row);
  }

  write(now: number): void {
    const rows = [...this.#unwritten.values()];
    if (rows.length === 0) return;
    this.#forgetExpired.run([now, FORGOTTEN_AT_ONCE * rows.length]);
    this.#upsert.run([
      JSON.stringify(rows.map((row) => [row.key, row.body_hash, row.call_id, row.expires_at])),
    ]);
  }
}

/** Accepts JobCalls, after the rows that decide about the keys of all of them were read together. */
export function acceptInBulk(
  rows: SqliteIntakeRows,
  steps: IntakeSteps,
  ofModules: SqliteRows,
): BulkTable<"accept" | "acceptOnce"> {
  const readKeys = (operations: readonly { readonly input: readonly [NewCall, ...unknown[]] }[]) =>
    ofModules.loadKeys(operations.flatMap(({ input: [{ order }] }) => order?.orderKey ?? []));
  return {
    accept(operations) {
      readKeys(operations);
      const outcomes = operations.map(({ now, input }) => steps.accept(now, ...input));
      ofModules.unload();
      return outcomes;
    },
    acceptOnce(operations) {
      const keys = operations.flatMap(({ input: [, delivery] }) => delivery.keys);
      rows.read(keys.flatMap(({ key, identifies }) => (identifies ? key : [])));
      readKeys(operations);
      const outcomes = operations.map(({ now, input }) => steps.acceptOnce(now, ...input));
      rows.write(operations.at(-1)?.now ?? 0);
      ofModules.unload();
      return outcomes;
    },
  };
}
