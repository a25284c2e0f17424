import type { Database } from "./driver.ts";
import { BUSY_MS } from "./open-database.ts";

/** Number of checks, a second apart, after which the log is truncated even if the store is in use. */
const MAX_LOOKS = 5;

/** Truncates the write-ahead log after a result was deleted, because earlier frames still contain its bytes. */
export class ForgottenPages {
  readonly #database: Database;
  /**
   * Number of checks since the bytes of a deleted result may have entered the log. It starts at 0, because a process
   * may have been killed before this start.
   */
  #looks: number | undefined = 0;

  constructor(database: Database) {
    this.#database = database;
  }

  noteForgotten(): void {
    this.#looks ??= 0;
  }

  /** @param isIdle true if nothing was written since the last check */
  look({ isIdle }: { readonly isIdle: boolean }): void {
    if (this.#looks === undefined) return;
    this.#looks++;
    if ((isIdle || this.#looks >= MAX_LOOKS) && this.#cutLog()) this.#looks = undefined;
  }

  /** @returns false if another connection reads the log, or the write fails. The next check then tries again */
  #cutLog(): boolean {
    const database = this.#database;
    // Commits wait for this call, so it must not wait itself.
    database.exec("PRAGMA busy_timeout = 0");
    try {
      return database.prepare<{ busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)").get([])?.busy === 0;
    } catch {
      return false;
    } finally {
      database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    }
  }
}
