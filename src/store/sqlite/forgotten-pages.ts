import type { Database } from "./driver.ts";
import { BUSY_MS } from "./open-database.ts";

/** Looks, a second apart, after which the log is cut off although the store is in use. */
const MAX_LOOKS = 5;

/** Cuts the write-ahead log off once a result was forgotten: earlier frames still have its bytes. */
export class ForgottenPages {
  readonly #database: Database;
  /** Looks since a result was forgotten whose bytes may be in the log: before the start, a process may have been killed. */
  #looks: number | undefined = 0;

  constructor(database: Database) {
    this.#database = database;
  }

  noteForgotten(): void {
    this.#looks ??= 0;
  }

  /** @param isIdle nothing was written since the last look */
  look({ isIdle }: { readonly isIdle: boolean }): void {
    if (this.#looks === undefined) return;
    this.#looks++;
    if ((isIdle || this.#looks >= MAX_LOOKS) && this.#cutLog()) this.#looks = undefined;
  }

  /** @returns false if another connection reads the log, or the disk does not take it: the next look tries again */
  #cutLog(): boolean {
    const database = this.#database;
    // Commits wait for this.
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
