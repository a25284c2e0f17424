import { oneSpelling } from "../../../core/payment.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { Commit, StoreModule } from "../../../store/module.ts";
import { endedRows, keyIn, type RowKey, type Rows, type Table } from "../../../store/rows.ts";
import {
  FINISHED_MS,
  type NewTransaction,
  type OpenTransactions,
  type TransactionJournal,
  type TransactionRecord,
} from "./journal.ts";
import {
  normalSigned,
  type StoredTransaction,
  TRANSACTION_COLUMNS,
  type TransactionRow,
  toTransactionRecord,
  toTransactionRow,
} from "./row.ts";
import { applyEnd, applySignatures, isMinedNow, queuedAgain } from "./rules.ts";
import { transactionsSchema } from "./schema.ts";

const TRANSACTIONS_TABLE: Table<StoredTransaction, "network" | "reference"> = {
  name: "settler_transactions",
  key: ["network", "reference"],
  columns: TRANSACTION_COLUMNS,
};

interface AccountRow {
  readonly network: string;
  readonly account: string;
  readonly last_nonce: number;
}

const ACCOUNTS: Table<AccountRow, "network" | "account"> = {
  name: "settler_accounts",
  key: ["network", "account"],
  columns: ["network", "account", "last_nonce"],
};

const FINISHED = endedRows(TRANSACTIONS_TABLE.name, "finished_at", 200);

const COLUMN_LIST = `id, ${TRANSACTION_COLUMNS.join(", ")}`;

/** Transactions that jobgate itself signs and sends. Only the process that holds the lock of a network signs for it. */
export const TRANSACTIONS: StoreModule<TransactionJournal> = {
  schema: { table: TRANSACTIONS_TABLE.name, sql: transactionsSchema },

  steps: {
    queueTransaction: {
      keys: (transaction) => [transactionKey(transaction.network, transaction.reference)],
      run: ({ rows }, now, transaction) => queueTransaction(rows, transaction, now),
    },

    signTransactions: {
      keys: (network, _owner, signed) =>
        signed.flatMap(({ reference, account }) => [
          transactionKey(network, reference),
          keyIn(ACCOUNTS, { network, account: oneSpelling(account) }),
        ]),
      locks: (name, owner) => [{ name, owner }],
      run(commit, now, network, owner, signed) {
        const { rows } = commit;
        if (!commit.isHeld(network, owner, now)) return "not_owner";
        const applied = applySignatures(signed.map(normalSigned), {
          now,
          findRow: (reference) => rows.find(TRANSACTIONS_TABLE, { network, reference }),
          findLastNonce: (account) => rows.find(ACCOUNTS, { network, account })?.last_nonce,
        });
        if (applied === undefined) return "stale";
        for (const row of applied.rows) rows.put(TRANSACTIONS_TABLE, row);
        for (const [account, last_nonce] of applied.lastNonces)
          rows.put(ACCOUNTS, { network, account, last_nonce });
        return "signed";
      },
    },

    finishTransactions: {
      keys: (network, _owner, ends) => ends.map(({ reference }) => transactionKey(network, reference)),
      locks: (name, owner) => [{ name, owner }],
      run(commit, now, network, owner, ends) {
        if (!commit.isHeld(network, owner, now)) return "not_owner";
        for (const end of ends) {
          const row = commit.rows.find(TRANSACTIONS_TABLE, {
            network,
            reference: end.reference.toLowerCase(),
          });
          const ended = row && applyEnd(row, end, now);
          if (row === undefined || ended === undefined) continue;
          commit.rows.put(TRANSACTIONS_TABLE, ended);
          if (isMinedNow(row, ended)) noteFee(commit, ended);
        }
        return "finished";
      },
    },
  },

  lookups: {
    *findTransactions({ dialect }, network, references): Lookup<TransactionRecord[]> {
      if (references.length === 0) return [];
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${COLUMN_LIST} FROM ${dialect.schema}settler_transactions
        WHERE network = ${add(network)} AND reference IN (${references.map((one) => add(one.toLowerCase())).join()})`;
      return ((yield { sql, values }) as TransactionRow[]).map(toTransactionRecord);
    },

    *listOpenTransactions({ dialect }, network, { state, limit, after = 0 }): Lookup<OpenTransactions> {
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}settler_transactions${dialect.indexedBy("settler_transactions_open")}`;
      const sql = `SELECT ${COLUMN_LIST} FROM ${table}
        WHERE network = ${add(network)} AND state = ${add(state)} AND state IN ('queued', 'sent') AND id > ${add(after)}
        ORDER BY id LIMIT ${add(limit)}`;
      const rows = (yield { name: "list_open_transactions", sql, values }) as TransactionRow[];
      const accounts = (yield {
        name: "list_last_nonces",
        sql: `SELECT account, last_nonce FROM ${dialect.schema}settler_accounts
               WHERE network = ${dialect.parameter(1)} ORDER BY account`,
        values: [network],
      }) as AccountRow[];
      const lastNonces = accounts.map(({ account, last_nonce: nonce }) => ({ account, nonce }));
      return { transactions: rows.map(toTransactionRecord), lastNonces };
    },
  },
};

/** Notes what a transaction has cost. */
function noteFee(commit: Commit, transaction: StoredTransaction): void {
  const { fee, finished_at: at, account, mined_hash: transaction_hash, block_number } = transaction;
  if (fee === null || at === null) return;
  // A queue is named by its network, and by its purpose if the network has several.
  const [network = ""] = transaction.network.split("/");
  const mined = { network, amount: fee, account, counterparty: null, transaction_hash, block_number };
  commit.note({ kind: "moneySent", sent: { ...mined, as: "network_fee", at, payment: undefined } });
}

export function transactionKey(network: string, reference: string): RowKey {
  return keyIn(TRANSACTIONS_TABLE, { network, reference: reference.toLowerCase() });
}

/** Queues a transaction, unless its reference is known. */
export function queueTransaction(rows: Rows, transaction: NewTransaction, now: number): void {
  rows.forget(FINISHED, now - FINISHED_MS);
  const row = toTransactionRow(transaction, now);
  const queued = queuedAgain(rows.find(TRANSACTIONS_TABLE, row), row);
  if (queued !== undefined) rows.put(TRANSACTIONS_TABLE, queued);
}
