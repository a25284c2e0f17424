import { FINISHED_MS, type SignTransactionsOutcome } from "../../../store/contract/transaction-journal.ts";
import { applyEnd, applySignatures, isMinedNow } from "../../../store/rules/transactions.ts";
import {
  CHANGED_TRANSACTION_COLUMNS,
  NEW_TRANSACTION_COLUMNS,
  normalSigned,
  TRANSACTION_COLUMN_LIST,
  type TransactionRow,
  toTransactionRecord,
  toTransactionRow,
} from "../../../store/transaction-row.ts";
import { FIND_TRANSACTIONS, referenceColumns } from "../shared-statements.ts";
import { NOW, type Sql, statement, storable } from "../sql.ts";
import { type BatchContext, type BatchPart, type Entry, entriesOf } from "./batch.ts";
import type { PostgresEffects } from "./effects.ts";

/** Finished transactions that are deleted with each batch of new ones: more than it adds, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 200;

// A lock that another batch is about to take or to use is not waited for.
const HOLD_LOCK = statement<{ name: string }>(
  "hold_lock",
  `WITH renewed AS (
     UPDATE jobgate.locks SET held_until = ${NOW} + $4 WHERE name = $2 AND owner = $3 RETURNING name),
   taken AS (
     UPDATE jobgate.locks SET owner = $3, held_until = ${NOW} + $4
      WHERE name = (SELECT name FROM jobgate.locks
                     WHERE name = $2 AND owner <> $3 AND held_until <= ${NOW} FOR UPDATE SKIP LOCKED)
     RETURNING name),
   new AS (
     INSERT INTO jobgate.locks VALUES ($2, $3, ${NOW} + $4) ON CONFLICT (name) DO NOTHING RETURNING name)
   SELECT name FROM renewed UNION ALL SELECT name FROM taken UNION ALL SELECT name FROM new`,
);
// Locked until the batch is decided, so that nobody takes the network while its owner signs.
const KEEP_LOCKS = statement<{ name: string; owner: string }>(
  "keep_locks",
  `SELECT name, owner FROM jobgate.locks
     JOIN unnest($2::text[], $3::text[]) AS asked (name, owner) USING (name, owner)
    WHERE held_until > ${NOW} ORDER BY name FOR UPDATE OF locks`,
);
const LOCK_TRANSACTIONS = statement<TransactionRow>(
  "lock_transactions",
  `SELECT ${TRANSACTION_COLUMN_LIST} FROM jobgate.settler_transactions
     JOIN unnest($1::text[], $2::text[]) AS asked (network, reference) USING (network, reference)
    ORDER BY network, reference FOR UPDATE OF settler_transactions`,
);
const SELECT_NONCES = statement<NonceRow>(
  "select_last_nonces",
  "SELECT network, account, last_nonce FROM jobgate.settler_accounts WHERE network = ANY ($1::text[])",
);
const WRITE_TRANSACTIONS = statement(
  "write_transactions",
  `UPDATE jobgate.settler_transactions AS written
      SET ${CHANGED_TRANSACTION_COLUMNS.map((column) => `${column} = new.${column}`).join(", ")}
     FROM json_populate_recordset(NULL::jobgate.settler_transactions, $1::json) AS new WHERE written.id = new.id`,
);
const WRITE_NONCES = statement(
  "write_last_nonces",
  `INSERT INTO jobgate.settler_accounts (network, account, last_nonce)
   SELECT network, account, last_nonce FROM json_populate_recordset(NULL::jobgate.settler_accounts, $1::json)
    ORDER BY network, account
   ON CONFLICT (network, account) DO UPDATE SET last_nonce = excluded.last_nonce`,
);
const FORGET_FINISHED = statement(
  "forget_transactions",
  `DELETE FROM jobgate.settler_transactions WHERE id = ANY (ARRAY (
     SELECT id FROM jobgate.settler_transactions WHERE finished_at <= $1 AND NOT EXISTS (
       SELECT FROM jobgate.refunds WHERE refunds.reference = settler_transactions.reference AND refunds.state = 'sending')
      ORDER BY finished_at LIMIT ${FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);
export const QUEUE_TRANSACTIONS = statement(
  "queue_transactions",
  `INSERT INTO jobgate.settler_transactions AS known (${NEW_TRANSACTION_COLUMNS.join(", ")})
   SELECT DISTINCT ON (network, reference) ${NEW_TRANSACTION_COLUMNS.join(", ")}
     FROM json_populate_recordset(NULL::jobgate.settler_transactions, $1::json) ORDER BY network, reference
   ON CONFLICT (network, reference) DO UPDATE SET state = 'queued', reason = NULL, finished_at = NULL
      WHERE known.state = 'dropped'`,
);
interface NonceRow {
  readonly network: string;
  readonly account: string;
  readonly last_nonce: number;
}

type Fenced = Entry<"signTransactions" | "finishTransactions">;

/** Operations of the transaction journal that write. Those of a network's owner come before new transactions. */
export class TransactionsPart implements BatchPart {
  readonly callIds = 0;
  readonly #holds: readonly Entry<"holdLock">[];
  readonly #fenced: readonly Fenced[];
  readonly #queued: readonly Entry<"queueTransaction">[];
  readonly #testNow: number | null;
  /** Networks with owners that hold them, as {@link keyOf}. */
  readonly #held = new Set<string>();
  /** Rows by {@link keyOf} network and reference. */
  readonly #rows = new Map<string, TransactionRow>();
  readonly #changed = new Set<string>();
  /** Last nonces by {@link keyOf} network and account. */
  readonly #nonces = new Map<string, NonceRow>();
  readonly #newNonces = new Set<string>();

  /** @param now replaces the database's clock */
  constructor(
    entries: readonly Entry<"holdLock" | "queueTransaction" | "signTransactions" | "finishTransactions">[],
    now: number | null,
  ) {
    // Locked in the same order in all batches, so that no two wait for each other.
    this.#holds = entriesOf(entries, "holdLock").toSorted(({ input: [a] }, { input: [b] }) =>
      a < b ? -1 : 1,
    );
    this.#fenced = entriesOf(entries, "signTransactions", "finishTransactions");
    this.#queued = entriesOf(entries, "queueTransaction");
    this.#testNow = now;
  }

  async load(sql: Sql): Promise<void> {
    await Promise.all([
      ...this.#holds.map(async ({ input, decide }) => {
        decide((await sql.run(HOLD_LOCK, [this.#testNow, ...input])).length > 0);
      }),
      this.#fenced.length === 0 ? [] : this.#loadFenced(sql),
    ]);
  }

  async #loadFenced(sql: Sql): Promise<void> {
    const networks = this.#fenced.map(({ input: [network] }) => network);
    const owners = this.#fenced.map(({ input: [, owner] }) => owner);
    const asked = this.#fenced.flatMap(({ input: [network, , changes] }) =>
      changes.map(({ reference }) => ({ network, reference })),
    );
    const [locks, rows, nonces] = await Promise.all([
      sql.run(KEEP_LOCKS, [this.#testNow, networks, owners]),
      sql.run(LOCK_TRANSACTIONS, referenceColumns(asked)),
      sql.run(SELECT_NONCES, [networks]),
    ]);
    for (const { name, owner } of locks) this.#held.add(keyOf(name, owner));
    for (const row of rows) this.#rows.set(keyOf(row.network, row.reference), row);
    for (const row of nonces) this.#nonces.set(keyOf(row.network, row.account), row);
  }

  async write({ sql, now, effects }: BatchContext): Promise<void> {
    for (const entry of this.#fenced) {
      const [network, owner] = entry.input;
      if (!this.#held.has(keyOf(network, owner))) entry.decide("not_owner");
      else if (entry.name === "signTransactions") entry.decide(this.#sign(entry.input, now));
      else entry.decide(this.#finish(entry.input, effects, now));
    }
    const changed = [...this.#changed].map((key) => this.#rows.get(key));
    const nonces = [...this.#newNonces].map((key) => this.#nonces.get(key));
    await Promise.all([
      changed.length === 0 ? [] : sql.run(WRITE_TRANSACTIONS, [JSON.stringify(changed)]),
      nonces.length === 0 ? [] : sql.run(WRITE_NONCES, [JSON.stringify(nonces)]),
      this.#queued.length === 0 ? [] : this.#queue(sql, now),
    ]);
  }

  #sign([network, , signed]: Entry<"signTransactions">["input"], now: number): SignTransactionsOutcome {
    const applied = applySignatures(signed.map(normalSigned), {
      now,
      findRow: (reference) => this.#rows.get(keyOf(network, reference)),
      findLastNonce: (account) => this.#nonces.get(keyOf(network, account))?.last_nonce,
    });
    if (applied === undefined) return "stale";
    for (const row of applied.rows) this.#change(row);
    for (const [account, last_nonce] of applied.lastNonces) {
      const key = keyOf(network, account);
      this.#nonces.set(key, { network, account, last_nonce });
      this.#newNonces.add(key);
    }
    return "signed";
  }

  #finish(
    [network, , ends]: Entry<"finishTransactions">["input"],
    effects: PostgresEffects,
    now: number,
  ): "finished" {
    for (const end of ends) {
      const row = this.#rows.get(keyOf(network, end.reference.toLowerCase()));
      const ended = row && applyEnd(row, end, now);
      if (row === undefined || ended === undefined) continue;
      this.#change({ ...ended, reason: storable(ended.reason ?? undefined) });
      if (isMinedNow(row, ended)) effects.note({ kind: "transactionMined", transaction: ended });
    }
    return "finished";
  }

  #change(row: TransactionRow): void {
    const key = keyOf(row.network, row.reference);
    this.#rows.set(key, row);
    this.#changed.add(key);
  }

  async #queue(sql: Sql, now: number): Promise<void> {
    const rows = this.#queued.map(({ input: [transaction] }) => toTransactionRow(transaction, now));
    const [, , known] = await Promise.all([
      sql.run(FORGET_FINISHED, [now - FINISHED_MS]),
      sql.run(QUEUE_TRANSACTIONS, [JSON.stringify(rows)]),
      sql.run(FIND_TRANSACTIONS, referenceColumns(rows)),
    ]);
    const records = new Map(
      known.map((row) => [keyOf(row.network, row.reference), toTransactionRecord(row)]),
    );
    for (const [index, { network, reference }] of rows.entries()) {
      const record = records.get(keyOf(network, reference));
      if (record === undefined) throw new Error(`Postgres did not keep the transaction ${reference}`);
      this.#queued[index]?.decide(record);
    }
  }
}

function keyOf(network: string, name: string): string {
  return `${network} ${name}`;
}
