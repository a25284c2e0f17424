import { FINISHED_MS } from "../../contract/transaction-journal.ts";
import {
  applyEnd,
  applySignatures,
  canHold,
  type HeldLock,
  isHeldBy,
  isMinedNow,
} from "../../rules/transactions.ts";
import {
  CHANGED_TRANSACTION_COLUMNS,
  NEW_TRANSACTION_COLUMNS,
  normalSigned,
  type TransactionRow,
  toTransactionRecord,
  toTransactionRow,
} from "../../transaction-row.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import type { SqliteEffects } from "./effects.ts";

/** Finished transactions that are deleted with each new one: more than it adds, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 10;

const SELECT_BY_REFERENCE = "SELECT * FROM settler_transactions WHERE network = ? AND reference = ?";

export function transactionOperations(
  database: Database,
  effects: SqliteEffects,
): OperationTable<"holdLock" | "queueTransaction" | "signTransactions" | "finishTransactions"> {
  // Kept in memory: one file belongs to one process, so a lock ends with it.
  const locks = new Map<string, HeldLock>();
  const select = database.prepare<TransactionRow>(SELECT_BY_REFERENCE);
  const queue = database.prepare(
    `INSERT INTO settler_transactions (${NEW_TRANSACTION_COLUMNS.join(", ")})
     VALUES (${NEW_TRANSACTION_COLUMNS.map(() => "?").join(", ")})
     ON CONFLICT (network, reference) DO UPDATE SET state = 'queued', reason = NULL, finished_at = NULL
        WHERE state = 'dropped'`,
  );
  const forgetFinished = database.prepare(
    `DELETE FROM settler_transactions WHERE id IN
       (SELECT id FROM settler_transactions WHERE finished_at <= ? AND NOT EXISTS (
          SELECT 1 FROM refunds WHERE refunds.reference = settler_transactions.reference AND refunds.state = 'sending')
         LIMIT ${FORGOTTEN_AT_ONCE})`,
  );
  const update = database.prepare(
    `UPDATE settler_transactions SET ${CHANGED_TRANSACTION_COLUMNS.map((column) => `${column} = ?`).join(", ")}
      WHERE id = ?`,
  );
  const selectNonce = database.prepare<{ last_nonce: number }>(
    "SELECT last_nonce FROM settler_accounts WHERE network = ? AND account = ?",
  );
  const upsertNonce = database.prepare("INSERT OR REPLACE INTO settler_accounts VALUES (?, ?, ?)");

  function write(row: TransactionRow): void {
    update.run([...CHANGED_TRANSACTION_COLUMNS.map((column) => row[column]), row.id]);
  }

  return {
    holdLock(now, name, owner, forMs) {
      if (!canHold(locks.get(name), owner, now)) return false;
      locks.set(name, { owner, heldUntil: now + forMs });
      return true;
    },

    queueTransaction(now, transaction) {
      forgetFinished.run([now - FINISHED_MS]);
      const row = toTransactionRow(transaction, now);
      queue.run(NEW_TRANSACTION_COLUMNS.map((column) => row[column]));
      return toTransactionRecord(select.get([row.network, row.reference]) as TransactionRow);
    },

    signTransactions(now, network, owner, signed) {
      if (!isHeldBy(locks.get(network), owner, now)) return "not_owner";
      const applied = applySignatures(signed.map(normalSigned), {
        now,
        findRow: (reference) => select.get([network, reference]),
        findLastNonce: (account) => selectNonce.get([network, account])?.last_nonce,
      });
      if (applied === undefined) return "stale";
      for (const row of applied.rows) write(row);
      for (const [account, nonce] of applied.lastNonces) upsertNonce.run([network, account, nonce]);
      return "signed";
    },

    finishTransactions(now, network, owner, ends) {
      if (!isHeldBy(locks.get(network), owner, now)) return "not_owner";
      for (const end of ends) {
        const row = select.get([network, end.reference.toLowerCase()]);
        const ended = row && applyEnd(row, end, now);
        if (row === undefined || ended === undefined) continue;
        write(ended);
        if (isMinedNow(row, ended)) effects.note({ kind: "transactionMined", transaction: ended });
      }
      return "finished";
    },
  };
}

export function transactionLookups(
  database: Database,
): OperationTable<"findTransactions" | "listOpenTransactions"> {
  const select = database.prepare<TransactionRow>(SELECT_BY_REFERENCE);
  const selectOpen = database.prepare<TransactionRow>(
    `SELECT * FROM settler_transactions INDEXED BY settler_transactions_open
      WHERE network = ? AND state = ? AND state IN ('queued', 'sent') AND id > ? ORDER BY id LIMIT ?`,
  );
  const selectNonces = database.prepare<{ account: string; nonce: number }>(
    "SELECT account, last_nonce AS nonce FROM settler_accounts WHERE network = ? ORDER BY account",
  );
  return {
    findTransactions: (_now, network, references) =>
      references
        .flatMap((reference) => select.get([network, reference.toLowerCase()]) ?? [])
        .map(toTransactionRecord),
    listOpenTransactions: (_now, network, { state, limit, after = 0 }) => ({
      transactions: selectOpen.all([network, state, after, limit]).map(toTransactionRecord),
      lastNonces: selectNonces.all([network]).map(({ account, nonce }) => ({ account, nonce })),
    }),
  };
}
