import type { EndedCall } from "../../../store/machine/announcements.ts";
import { ORDERING } from "../../../store/modules/modules.ts";
import type { KeyOrder } from "../../../store/new-call.ts";
import type { CallState } from "../../../store/rules/leases.ts";
import { type Sql, statement } from "../sql.ts";
import type { PostgresRows } from "./module-rows.ts";

// Read after the rows of the keys are locked, so that it sees all JobCalls that other batches added.
const FIRST_WAITING = statement<{ order_key: string; call_id: number | null }>(
  "first_waiting",
  `SELECT order_key, (SELECT call_id FROM jobgate.job_calls AS waiting
                       WHERE waiting.state = 'held' AND waiting.order_key = ended.order_key
                       ORDER BY call_id LIMIT 1) AS call_id
     FROM unnest($1::text[]) AS ended (order_key)`,
);

/** Keys of the JobCalls that a batch adds or ends. All rows of keys are locked together, after the JobCalls, so that no two batches wait for each other. */
export class PostgresKeys {
  /** Keys of JobCalls that the batch adds, or that runners may have again. */
  readonly #used = new Set<string>();
  readonly #ended = new Set<string>();
  /** JobCalls that wait, the first of each key that is known, by key. */
  readonly #waiting = new Map<string, number[]>();
  #awaitsEnds = false;

  /** Makes {@link load} lock the key of a new JobCall. */
  willAdd({ orderKey }: KeyOrder): void {
    this.#used.add(orderKey);
  }

  /** Notes that the batch ends JobCalls that it has not read yet. */
  awaitEnds(): void {
    this.#awaitsEnds = true;
  }

  get awaitsEnds(): boolean {
    return this.#awaitsEnds;
  }

  /** Makes {@link load} lock the keys of JobCalls that may end, and read the next JobCall of each key. */
  willEnd(calls: readonly (Pick<EndedCall, "order_key"> & { readonly state: CallState })[]): void {
    // A JobCall that waits does not end.
    for (const { order_key, state } of calls)
      if (order_key !== null && state !== "held") this.#ended.add(order_key);
  }

  /** Lets {@link load} lock the keys of JobCalls whose lease or delay is over. */
  willTakeBack(calls: readonly Pick<EndedCall, "order_key">[]): void {
    for (const { order_key } of calls) if (order_key !== null) this.#used.add(order_key);
  }

  /** Lets {@link load} lock keys that a step changes, and read which JobCall comes next. */
  willChange(orderKeys: readonly string[]): void {
    for (const orderKey of orderKeys) this.#ended.add(orderKey);
  }

  /** Locks and reads the declared rows. Sends its statements before it first waits. */
  async load(sql: Sql, rows: PostgresRows): Promise<void> {
    this.#awaitsEnds = false;
    if (ORDERING === undefined || this.#used.size + this.#ended.size === 0) return;
    for (const orderKey of [...this.#used, ...this.#ended]) rows.willNeed(ORDERING.row(orderKey));
    const ended = [...this.#ended];
    this.#used.clear();
    this.#ended.clear();
    const [, first] = await Promise.all([
      rows.load(sql),
      ended.length === 0 ? [] : sql.run(FIRST_WAITING, [ended]),
    ]);
    for (const { order_key, call_id } of first) if (call_id !== null) this.withheld(call_id, order_key);
  }

  /** Notes that a JobCall waits. */
  withheld(callId: number, orderKey: string): void {
    const waiting = this.#waiting.get(orderKey) ?? [];
    if (!waiting.includes(callId)) waiting.push(callId);
    this.#waiting.set(orderKey, waiting);
  }

  /** Returns the first waiting JobCall, and removes it from the waiting JobCalls. */
  takeFirst(orderKey: string): number | undefined {
    const waiting = this.#waiting.get(orderKey) ?? [];
    const first = Math.min(...waiting);
    this.#waiting.set(
      orderKey,
      waiting.filter((callId) => callId !== first),
    );
    return waiting.length === 0 ? undefined : first;
  }
}
