import { setTimeout as sleep } from "node:timers/promises";
import { UnknownOutcomeError } from "../../../core/errors.ts";
import type { PostgresTimeouts } from "../connection/connect.ts";
import type { ConnectionPool } from "../connection/connection-pool.ts";
import { sqlOf, statement } from "../sql.ts";

/** Time for which a committed batch's note is kept: far longer than a lookup takes. */
const NOTED_FOR_MS = 15 * 60_000;
const RETRY_MS = 100;

const NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
// Waits for a transaction that has noted the same batch and is still in progress. Once this note is written, that
// transaction can no longer commit, because it would note the batch a second time.
const ABANDON_BATCH = statement<{ now: number }>(
  "abandon_batch",
  `INSERT INTO jobgate.batches (id, is_abandoned) VALUES ($1, true) ON CONFLICT (id) DO NOTHING RETURNING ${NOW} AS now`,
);
// Writes instead of only reading, so that its own commit waits for the synchronous standbys, which then have the batch. A
// COMMIT whose connection ended during that wait is visible locally, but a failover could lose it.
const FIND_BATCH = statement<{ is_abandoned: boolean }>(
  "find_batch",
  "UPDATE jobgate.batches SET is_abandoned = is_abandoned WHERE id = $1 RETURNING is_abandoned",
);
const FORGET_BATCHES = statement(
  "forget_batches",
  `DELETE FROM jobgate.batches WHERE id = ANY (ARRAY (
     SELECT id FROM jobgate.batches WHERE committed_at < now() - interval '${NOTED_FOR_MS / 60_000} minutes'
      ORDER BY committed_at LIMIT 100000 FOR UPDATE SKIP LOCKED))`,
);

/**
 * Finds out whether a batch was committed whose COMMIT was not answered. Queries the current server, because after a
 * failover the new primary's data is authoritative. If the batch was not committed, it never will be.
 * @throws UnknownOutcomeError when no server answered in time
 */
export async function findOutcome(options: {
  readonly writers: ConnectionPool;
  readonly timeouts: PostgresTimeouts;
  readonly batchId: string;
  /** Unix milliseconds, by the database's clock. */
  readonly startedAt: number;
  /** Returns true while the lookup may continue beyond its time limit. */
  readonly isPatient: () => boolean;
}): Promise<boolean> {
  const { writers, timeouts, batchId, startedAt, isPatient } = options;
  const deadline = performance.now() + timeouts.outcomeMs;
  for (;;) {
    try {
      return await askForOutcome(writers, batchId, startedAt);
    } catch (cause) {
      const isOver = performance.now() >= deadline && !isPatient();
      if (cause instanceof UnknownOutcomeError) throw cause;
      if (isOver)
        throw new UnknownOutcomeError("Postgres did not say whether a change was committed", { cause });
    }
    await sleep(RETRY_MS);
  }
}

function askForOutcome(writers: ConnectionPool, batchId: string, startedAt: number): Promise<boolean> {
  return writers.use(async (client) => {
    const sql = sqlOf(client);
    const [abandoned] = await sql.run(ABANDON_BATCH, [batchId]);
    if (abandoned === undefined) {
      const [found] = await sql.run(FIND_BATCH, [batchId]);
      // This may be the second attempt, after the answer to the first was lost.
      return found?.is_abandoned === false;
    }
    if (abandoned.now - startedAt > NOTED_FOR_MS / 2) {
      throw new UnknownOutcomeError("a change is too long ago to find out whether it was committed");
    }
    return false;
  });
}

/** Deletes notes of batches that are too old to be looked up. */
export async function forgetBatches(readers: ConnectionPool): Promise<void> {
  await readers.use((client) => sqlOf(client).run(FORGET_BATCHES));
}
