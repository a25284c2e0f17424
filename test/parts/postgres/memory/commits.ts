import type { Mirror } from "./mirror.ts";
import type { Cell, Row } from "./tables.ts";
import { databaseError, type Transaction } from "./transaction.ts";

/**
 * Sends a commit to the standby.
 * @param arrive the standby has it; commits arrive in their order
 * @param endWait ends the connection on which the COMMIT waits for that
 */
export type ToStandby = (arrive: () => void, endWait: () => void) => void;

/** A commit that the standby does not have yet. */
interface Waiting {
  readonly transaction: Transaction;
  readonly batchId: string | undefined;
  /** Rows that it has changed as they were before, once others see it. */
  before: readonly (readonly [Cell, Row | undefined])[] | undefined;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * Commits of a primary with a synchronous standby. Each is in the log at once, and waits for the standby with its locks held.
 * If its connection ends meanwhile, others see it, and a fail-over can still lose it.
 */
export class Commits {
  readonly #mirror: Mirror;
  #waiting: Waiting[] = [];
  /** Default: the standby has each commit at once. */
  toStandby: ToStandby = (arrive) => arrive();
  /** Hears of each batch that the standby has, by the ID of its note. */
  onCommit: (batchId: string) => void = () => undefined;

  constructor(mirror: Mirror) {
    this.#mirror = mirror;
  }

  /** Resolves once the standby has the commit. @throws DatabaseError when its connection, or the primary, ended before */
  commit(transaction: Transaction, batchId: string | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const commit: Waiting = { transaction, batchId, before: undefined, resolve, reject };
      if (transaction.changed.length === 0) {
        this.#show(commit);
        this.#end(commit);
        return;
      }
      this.#waiting.push(commit);
      this.toStandby(
        () => this.#arrive(commit),
        () => this.#endWait(commit),
      );
    });
  }

  /** The standby takes the primary's place: what it does not have is lost. */
  failOver(): void {
    const lost = this.#waiting.splice(0).reverse();
    for (const { transaction, before, reject } of lost) {
      if (before === undefined) transaction.rollback();
      else this.#undo(before);
      reject(databaseError("57P01", "terminating connection"));
    }
  }

  #arrive(commit: Waiting): void {
    const index = this.#waiting.indexOf(commit);
    if (index < 0) return;
    this.#waiting.splice(index, 1);
    if (commit.before === undefined) this.#show(commit);
    this.#end(commit);
  }

  #endWait(commit: Waiting): void {
    if (!this.#waiting.includes(commit) || commit.before !== undefined) return;
    this.#show(commit);
    commit.reject(databaseError("57P01", "terminating connection"));
  }

  #end({ batchId, resolve }: Waiting): void {
    if (batchId !== undefined) this.onCommit(batchId);
    resolve();
  }

  /** Lets others see it. */
  #show(commit: Waiting): void {
    const { transaction } = commit;
    commit.before = transaction.changed.map((cell) => [cell, cell.committed]);
    const written = transaction.commit();
    if (written.length > 0) this.#mirror.write(written);
  }

  #undo(before: readonly (readonly [Cell, Row | undefined])[]): void {
    for (const [cell, row] of before) {
      cell.committed = row;
      if (row === undefined) cell.table.cells.delete(cell.key);
      else cell.table.cells.set(cell.key, cell);
    }
    this.#mirror.write(before.map(([cell]) => cell));
  }
}
