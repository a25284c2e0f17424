import { GROUPED_CHARACTERS } from "../../contract/dead-letter-box.ts";
import type { CallRow, CallRows } from "../../machine/leases.ts";
import type { Database, Statement } from "../driver.ts";

const COLUMNS = [
  ...[
    "call_id",
    "origin",
    "job_id",
    "service_id",
    "state",
    "visible_at",
    "lease_token",
    "attempts",
    "forgiven",
  ],
  ...["ceiling", "min_charge", "charge_so_far", "subscriber", "claimed_at", "history"],
  ...["progress_percent", "progress_text", "dead_at", "dead_reason"],
] as const;

/** Rows of JobCalls that operations on leases and dead letters change. */
export class SqliteCallRows implements CallRows {
  readonly #select: Statement<Omit<CallRow, "history"> & { readonly history: string | null }>;
  readonly #update: Statement<unknown>;
  readonly #extend: Statement<unknown>;
  readonly #drop: (callId: number) => void;

  /** @param drop removes a dead letter, and keeps how it failed */
  constructor(database: Database, drop: (callId: number) => void) {
    this.#drop = drop;
    this.#select = database.prepare(`SELECT ${COLUMNS.join()} FROM job_calls WHERE call_id = ?`);
    this.#update = database.prepare(
      `UPDATE job_calls
          SET state = ?1, visible_at = ?2, lease_token = ?3, forgiven = ?4, subscriber = ?5, claimed_at = ?6, history = ?7,
              dead_at = ?8, dead_reason = ?9,
              dead_group = origin || ' ' || service_id || ' ' || job_id || ' ' || substr(?9, 1, ${GROUPED_CHARACTERS})
        WHERE call_id = ?10`,
    );
    this.#extend = database.prepare(
      "UPDATE job_calls SET visible_at = ?, progress_percent = ?, progress_text = ?, charge_so_far = ? WHERE call_id = ?",
    );
  }

  find(callId: number): CallRow | undefined {
    const row = this.#select.get([callId]);
    return row && { ...row, history: row.history === null ? null : JSON.parse(row.history) };
  }

  change(row: CallRow): void {
    const { state, visible_at, lease_token, forgiven, subscriber, claimed_at, dead_at, dead_reason } = row;
    const history = row.history === null ? null : JSON.stringify(row.history);
    const lease = [state, visible_at, lease_token, forgiven, subscriber, claimed_at];
    // The group of a JobCall that is not dead is NULL, as its reason is.
    this.#update.run([...lease, history, dead_at, dead_reason, row.call_id]);
  }

  extend({ visible_at, progress_percent, progress_text, charge_so_far, call_id }: CallRow): void {
    this.#extend.run([visible_at, progress_percent, progress_text, charge_so_far, call_id]);
  }

  drop({ call_id }: CallRow): void {
    this.#drop(call_id);
  }
}
