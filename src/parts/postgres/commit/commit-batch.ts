import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ClientBase } from "pg";
import type { Logger } from "pino";
import { UnknownOutcomeError } from "../../../core/errors.ts";
import type { OperationOutcome } from "../../../store/group-commit.ts";
import type { Operation as AnyOperation, WriteName } from "../../../store/operations.ts";
import { type RanBatch, type RunBatchOptions, runBatch } from "../batch/run-batch.ts";
import type { PostgresTimeouts } from "../connection/connect.ts";
import type { ConnectionPool } from "../connection/connection-pool.ts";
import { isCollision, isOperationsFault, isReadOnly, isRefusal } from "../connection/database-errors.ts";
import { type Sql, sqlOf, statement } from "../sql.ts";
import { findOutcome } from "./outcome.ts";

type Operation = AnyOperation<WriteName>;

export interface CommitterOptions extends RunBatchOptions {
  readonly writers: ConnectionPool;
  readonly timeouts: PostgresTimeouts;
  readonly logger: Logger | undefined;
  readonly isClosing: () => boolean;
  /** Called for each batch before the COMMIT that notes its ID, so that a simulated server learns what it commits. */
  readonly onRan: ((id: string, operations: readonly Operation[], batch: RanBatch) => void) | undefined;
  /** Called for each batch once it is durable, before the callers of its operations get their outcomes. */
  readonly onCommitted: (batch: RanBatch, operations: readonly Operation[]) => void;
}

const MAX_TRIES = 4;
const COLLISION_WAIT_MS = 20;

// Only the sum of the rows is read, so any unlocked row will do.
const ADJUST_PENDING = statement(
  "adjust_pending",
  `WITH free AS MATERIALIZED (SELECT slot FROM jobgate.pending ORDER BY slot LIMIT 1 FOR UPDATE SKIP LOCKED)
   UPDATE jobgate.pending SET n = n + $1
    WHERE slot = COALESCE((SELECT slot FROM free), 1 + floor(random() * 64)::int)`,
);
// A batch that changed nothing needs no note, because both possible answers about its outcome are true. A note makes the
// COMMIT wait for the synchronous standbys.
const NOTE_BATCH = statement(
  "note_batch",
  `INSERT INTO jobgate.batches (id, is_abandoned)
   SELECT $1::uuid, false WHERE $2::boolean OR pg_current_xact_id_if_assigned() IS NOT NULL`,
);
/** Operations whose answer promises durability even if they changed nothing, such as the answer to a repeated delivery. */
const NOTED: ReadonlySet<WriteName> = new Set(["probe", "acceptOnce"]);
const COMMIT = statement("commit", "COMMIT");
const ROLLBACK = statement("rollback", "ROLLBACK");

/**
 * Makes batches durable. A batch that collides with another, or whose connection breaks, is run again. If the database
 * refuses the values of an operation, the batch runs one operation at a time, so that the other operations are not affected.
 */
export class Committer {
  readonly #options: CommitterOptions;

  constructor(options: CommitterOptions) {
    this.#options = options;
  }

  async commit(operations: readonly Operation[]): Promise<OperationOutcome[]> {
    try {
      const { outcomes } = await this.#tryAgainIfUseful(operations);
      return outcomes.map((result) => ({ result }));
    } catch (error) {
      if (!isOperationsFault(error) && !isCollision(error)) throw error;
      return this.#oneByOne(operations);
    }
  }

  async #oneByOne(operations: readonly Operation[]): Promise<OperationOutcome[]> {
    const outcomes: OperationOutcome[] = [];
    for (const operation of operations) {
      try {
        outcomes.push({ result: (await this.#tryAgainIfUseful([operation])).outcomes[0] });
      } catch (error) {
        outcomes.push(error instanceof UnknownOutcomeError ? { error } : { error: String(error) });
      }
    }
    return outcomes;
  }

  async #tryAgainIfUseful(operations: readonly Operation[]): Promise<RanBatch> {
    const startedAt = performance.now();
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#tryOnce(operations);
      } catch (error) {
        // The callers have their answer, so operations that are certainly not committed must not run any more.
        const isLate = performance.now() - startedAt > this.#options.timeouts.callerMs;
        if (isLate || !isWorthAnotherTry(error, tries)) throw error;
        await sleep(Math.random() * COLLISION_WAIT_MS * tries);
      }
    }
  }

  async #tryOnce(operations: readonly Operation[]): Promise<RanBatch> {
    const { writers, logger, onCommitted } = this.#options;
    const id = randomUUID();
    const attempt = await writers.use(async (client, discard) => {
      const made = await attemptOn(client, operations, id, this.#options);
      if (made.kind === "unanswered") discard();
      return made;
    });
    if (attempt.kind === "refused") throw attempt.error;
    if (attempt.kind === "unanswered") {
      logger?.warn({ reason: String(attempt.error) }, "a COMMIT was not answered: looking up its outcome");
      const { startedAt } = attempt.batch;
      // The server keeps the connection of a COMMIT that hangs. The probe is awaited, so that probes do not keep further
      // connections.
      const isPatient = () => isProbe(operations) && !this.#options.isClosing();
      const committed = await findOutcome({ ...this.#options, batchId: id, startedAt, isPatient });
      if (!committed) throw attempt.error;
    }
    onCommitted(attempt.batch, operations);
    return attempt.batch;
  }
}

function isProbe(operations: readonly Operation[]): boolean {
  return operations.some(({ name }) => name === "probe");
}

/** @param error an error after which nothing was committed */
function isWorthAnotherTry(error: unknown, tries: number): boolean {
  if (error instanceof UnknownOutcomeError) return false;
  // A connection may have been broken for a while without being used. Another connection shows the real problem.
  return isRefusal(error) ? isCollision(error) && tries < MAX_TRIES : tries === 1;
}

/** Result of running a batch on one connection. */
type Attempt =
  | { readonly kind: "committed"; readonly batch: RanBatch }
  /** Nothing was committed, and the connection still works. */
  | { readonly kind: "refused"; readonly error: unknown }
  /** The connection was lost between the COMMIT and its answer. */
  | { readonly kind: "unanswered"; readonly batch: RanBatch; readonly error: unknown };

/** Rejects when the connection was lost before the COMMIT was sent, or is unusable. Nothing was committed then. */
async function attemptOn(
  client: ClientBase,
  operations: readonly Operation[],
  id: string,
  options: CommitterOptions,
): Promise<Attempt> {
  const sql = sqlOf(client);
  let batch: RanBatch;
  try {
    batch = await runBatch(sql, operations, options);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    await sql.run(ROLLBACK);
    return { kind: "refused", error };
  }
  options.onRan?.(id, operations, batch);
  try {
    await commit(sql, batch, { id, isNoted: operations.some(({ name }) => NOTED.has(name)) });
    return { kind: "committed", batch };
  } catch (error) {
    // The error is of a statement before the COMMIT.
    if (isReadOnly(error)) throw error;
    // Only a connection that still works shows that the COMMIT was not executed before the error.
    const livesOn =
      isRefusal(error) &&
      (await sql.run(ROLLBACK).then(
        () => true,
        () => false,
      ));
    return livesOn ? { kind: "refused", error } : { kind: "unanswered", batch, error };
  }
}

/** Commits in one round trip. If a statement is refused, the COMMIT after it rolls back. */
async function commit(
  sql: Sql,
  { pendingChange }: RanBatch,
  { id, isNoted }: { readonly id: string; readonly isNoted: boolean },
): Promise<void> {
  await Promise.all([
    pendingChange === 0 ? [] : sql.run(ADJUST_PENDING, [pendingChange]),
    sql.run(NOTE_BATCH, [id, isNoted]),
    sql.run(COMMIT),
  ]);
}
