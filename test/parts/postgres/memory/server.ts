import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import { CALL_STATEMENTS } from "./call-statements.ts";
import { Commits } from "./commits.ts";
import { Mirror } from "./mirror.ts";
import { PAYMENT_STATEMENTS } from "./payment-statements.ts";
import { type Row, Tables } from "./tables.ts";
import { databaseError, Transaction } from "./transaction.ts";
import { runModuleStatement, UPKEEP_STATEMENTS } from "./upkeep-statements.ts";
import type { Statements } from "./values.ts";

/** A statement as a client sends it. */
export interface Sent {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

const STATEMENTS: Statements = { ...CALL_STATEMENTS, ...PAYMENT_STATEMENTS, ...UPKEEP_STATEMENTS };
const ONLY_READS = /^\s*(WITH|SELECT)\b(?!.*\b(UPDATE|DELETE|INSERT)\b)/s;
const BEGINS = /^begin(_pruning)?$/;
const ENDS = /^(commit|rollback|roll_back)(_pruning)?$/;

/**
 * A Postgres in memory, which knows the statements of the store by their names. It has rows, row locks, transactions and
 * sessions; what the statements say is written here anew, so that only their locks follow from their SQL.
 */
export class MemoryPostgres {
  readonly mirror: Mirror;
  readonly #tables: Tables;
  readonly #sessions = new Set<Session>();
  readonly commits: Commits;
  #lastPid = 0;

  /** @param path of a SQLite database that gets the committed rows */
  constructor(path: string, isNew: boolean) {
    this.mirror = new Mirror(path, isNew);
    this.#tables = new Tables(this.mirror.shapes);
    this.commits = new Commits(this.mirror);
  }

  connect(): Session {
    const session = new Session(this, ++this.#lastPid);
    this.#sessions.add(session);
    return session;
  }

  /** Returns the committed rows of a table. */
  rows(name: string): Row[] {
    return [...this.#tables.of(name).cells.values()].flatMap(({ committed }) => committed ?? []);
  }

  begin(pid: number): Transaction {
    return new Transaction(this.#tables, pid);
  }

  left(session: Session): void {
    this.#sessions.delete(session);
  }

  /** Ends all sessions. What they have not committed is gone, and what no standby has. */
  failOver(): void {
    for (const session of this.#sessions) session.end();
    this.commits.failOver();
  }

  close(): void {
    this.failOver();
    this.mirror.close();
  }
}

/** A connection at the server. It runs one statement after the other. */
class Session {
  readonly #server: MemoryPostgres;
  readonly #pid: number;
  #last: Promise<unknown> = Promise.resolve();
  #transaction: Transaction | undefined;
  #hasFailed = false;
  #isEnded = false;
  /** Batch that the transaction has noted. */
  #batchId: string | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(server: MemoryPostgres, pid: number) {
    this.#server = server;
    this.#pid = pid;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  run(sent: Sent): Promise<readonly Row[]> {
    clearTimeout(this.#idle);
    const ran = this.#last.then(() => this.#run(sent));
    this.#last = ran.catch(() => undefined).then(() => this.#waitForNext());
    return ran;
  }

  /** Rolls back what is not committed, and hangs up. */
  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#idle);
    this.#transaction?.rollback();
    this.#transaction = undefined;
    this.#server.left(this);
  }

  async #run(sent: Sent): Promise<readonly Row[]> {
    if (this.#isEnded) throw databaseError("57P01", "terminating connection");
    const { name } = sent;
    if (BEGINS.test(name)) this.#transaction = this.#server.begin(this.#pid);
    else if (ENDS.test(name)) await this.#finish(name);
    else return this.#runIn(sent);
    return [];
  }

  async #runIn(sent: Sent): Promise<readonly Row[]> {
    const { name, values, text } = sent;
    if (this.#hasFailed) throw databaseError("25P02", "the transaction is aborted");
    const transaction = this.#transaction ?? this.#server.begin(this.#pid);
    if (name === "note_batch") this.#batchId = String(values[0]);
    try {
      const rows = await this.#rowsOf(transaction, { name, text, values });
      if (this.#transaction === undefined) await this.#commit(transaction, undefined);
      return rows;
    } catch (error) {
      if (this.#transaction === undefined) transaction.rollback();
      else this.#hasFailed = true;
      throw error;
    }
  }

  async #rowsOf(transaction: Transaction, sent: Sent): Promise<readonly Row[]> {
    const { name, text, values } = sent;
    const known = STATEMENTS[name];
    if (known !== undefined) return known(transaction, values, text);
    const [, table] = /^forget_rows_of_(\w+?)(?:_with_payments)?$/.exec(name) ?? [];
    if (table !== undefined) return this.#forget(transaction, table, sent);
    const ran = runModuleStatement(transaction, sent);
    if (ran !== undefined) return ran;
    if (!ONLY_READS.test(text)) throw new Error(`no statement is named ${name}`);
    return this.#server.mirror.select(text, values);
  }

  /** Deletes old rows, which the condition of the statement finds. */
  async #forget(transaction: Transaction, table: string, { text, values }: Sent): Promise<readonly Row[]> {
    const [, inner = ""] = /ARRAY \(\s*SELECT ctid (.*) FOR UPDATE/s.exec(text) ?? [];
    const keys = this.#server.mirror.select(
      `SELECT * ${inner.replace("= ANY ($1::bigint[])", "IN (SELECT value FROM json_each($1))")}`,
      values.map((value) => (typeof value === "string" ? value.replace(/^\{(.*)\}$/, "[$1]") : value)),
    );
    const old = new Set(keys.map((key) => transaction.keyOf(table, key)));
    // What the transaction itself has written is not old.
    const isOld = (row: Row) => old.has(transaction.keyOf(table, row)) && !transaction.hasWritten(table, row);
    await transaction.delete(table, isOld, { text });
    return [];
  }

  async #finish(name: string): Promise<void> {
    const [transaction, batchId] = [this.#transaction, this.#batchId];
    const isCommit = name.startsWith("commit") && !this.#hasFailed;
    this.#transaction = undefined;
    this.#batchId = undefined;
    this.#hasFailed = false;
    if (transaction === undefined) return;
    if (isCommit) await this.#commit(transaction, batchId);
    else transaction.rollback();
  }

  async #commit(transaction: Transaction, batchId: string | undefined): Promise<void> {
    try {
      await this.#server.commits.commit(transaction, batchId);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** A transaction that is idle for too long ends, and its connection with it. */
  #waitForNext(): void {
    clearTimeout(this.#idle);
    if (this.#transaction !== undefined)
      this.#idle = setTimeout(() => this.end(), DEFAULT_TIMEOUTS.statementMs);
  }
}

export type { Session };
