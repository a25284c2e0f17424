import {
  CALLBACK_COLUMN_LIST,
  type CallbackRow,
  CHANGED_CALLBACK_COLUMNS,
  toCallback,
} from "../../../store/callback-row.ts";
import { CALLBACK_KEPT_MS } from "../../../store/contract/callback-ledger.ts";
import { afterAttempt, retriedNow, toEndpointRow } from "../../../store/rules/callbacks.ts";
import { numberArray, type Sql, statement, storable } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";

/** Ended callbacks that are deleted with each batch that ends some: more than it ends, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 200;

const FORGET_ENDPOINTS = statement(
  "forget_callback_endpoints",
  "DELETE FROM jobgate.callback_endpoints WHERE url <> ALL ($1::text[])",
);
// Ordered alike in all batches, so that no two wait for each other.
const USE_ENDPOINTS = statement(
  "use_callback_endpoints",
  `INSERT INTO jobgate.callback_endpoints (url, host, events)
   SELECT url, host, events FROM json_populate_recordset(NULL::jobgate.callback_endpoints, $1::json) ORDER BY url
   ON CONFLICT (url) DO UPDATE SET events = excluded.events`,
);
const LOCK_CALLBACKS = statement<CallbackRow>(
  "lock_callbacks",
  `SELECT ${CALLBACK_COLUMN_LIST} FROM jobgate.callbacks WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE`,
);
const WRITE_CALLBACKS = statement(
  "write_callbacks",
  `UPDATE jobgate.callbacks AS written
      SET ${CHANGED_CALLBACK_COLUMNS.map((column) => `${column} = new.${column}`).join(", ")}
     FROM json_populate_recordset(NULL::jobgate.callbacks, $1::json) AS new WHERE written.id = new.id`,
);
const FORGET_CALLBACKS = statement(
  "forget_callbacks",
  `DELETE FROM jobgate.callbacks WHERE id = ANY (ARRAY (
     SELECT id FROM jobgate.callbacks WHERE ended_at <= $1 ORDER BY ended_at LIMIT ${FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);

/** Operations on callbacks that write; the machine adds callbacks. */
export class CallbacksPart implements BatchPart {
  readonly callIds = 0;
  readonly #endpoints: readonly Entry<"useCallbackEndpoints">[];
  readonly #changes: readonly Entry<"endCallback" | "retryCallback">[];
  readonly #rows = new Map<number, CallbackRow>();
  readonly #changed = new Set<number>();

  constructor(entries: readonly Entry<"useCallbackEndpoints" | "endCallback" | "retryCallback">[]) {
    this.#endpoints = entriesOf(entries, "useCallbackEndpoints");
    this.#changes = entriesOf(entries, "endCallback", "retryCallback");
  }

  async load(sql: Sql): Promise<void> {
    if (this.#changes.length === 0) return;
    const ids = this.#changes.map(({ input: [id] }) => id);
    for (const row of await sql.run(LOCK_CALLBACKS, [numberArray(ids)])) this.#rows.set(row.id, row);
  }

  async write({ sql, now }: BatchContext): Promise<void> {
    for (const entry of this.#changes) this.#apply(entry, now);
    const changed = [...this.#changed].map((id) => this.#rows.get(id));
    const endpoints = this.#endpoints.at(-1)?.input[0].map(toEndpointRow);
    await Promise.all([
      endpoints && sql.run(FORGET_ENDPOINTS, [endpoints.map(({ url }) => url)]),
      endpoints && sql.run(USE_ENDPOINTS, [JSON.stringify(endpoints)]),
      changed.length === 0 ? [] : sql.run(WRITE_CALLBACKS, [JSON.stringify(changed)]),
      changed.length === 0 ? [] : sql.run(FORGET_CALLBACKS, [now - CALLBACK_KEPT_MS]),
    ]);
    for (const { decide } of this.#endpoints) decide(undefined);
  }

  #apply(entry: Entry<"endCallback" | "retryCallback">, now: number): void {
    const known = this.#rows.get(entry.input[0]);
    if (entry.name === "endCallback") {
      const [, attempts, outcome] = entry.input;
      const row = this.#change(afterAttempt(known, attempts, outcome, now));
      entry.decide(row && toCallback(row));
      return;
    }
    const row = this.#change(retriedNow(known, now));
    const shown = row ?? known;
    entry.decide(shown && { retried: row !== undefined, callback: toCallback(shown) });
  }

  #change(row: CallbackRow | undefined): CallbackRow | undefined {
    if (row === undefined) return undefined;
    const changed = { ...row, reason: storable(row.reason ?? undefined) };
    this.#rows.set(row.id, changed);
    this.#changed.add(row.id);
    return changed;
  }
}
