import type { ClientBase } from "pg";
import type { Logger } from "pino";
import { forgetBatches } from "../commit/outcome.ts";
import { sqlOf, statement } from "../sql.ts";
import type { ConnectionPool } from "./connection-pool.ts";
import { ReadOnlyServer } from "./database-errors.ts";

const BEAT_MS = 1_000;
/** Beats between two clearings. */
const CLEAR_EVERY = 60;

const LOOK = statement<{ pending: number; is_read_only: boolean }>(
  "look",
  `SELECT sum(n)::bigint AS pending, current_setting('transaction_read_only') = 'on' AS is_read_only
     FROM jobgate.pending`,
);

/**
 * Looks at the database once a second, also without traffic: how much other replicas have pending, and whether it is
 * there to be written to. Clears up now and then.
 * Resolves after the first look.
 * @returns a function that stops it, and waits for what is under way
 * @throws Error when the first look fails
 */
export async function startHeartbeat(options: {
  /** Looks as writes do, since it tells whether they work: lookups may be slow at the same time. */
  readonly writers: ConnectionPool;
  readonly readers: ConnectionPool;
  readonly logger: Logger | undefined;
  readonly onPending: (pending: number) => void;
  readonly onFailure: (reason: string) => void;
}): Promise<() => Promise<void>> {
  const { writers, readers, logger, onPending, onFailure } = options;
  let timer: NodeJS.Timeout | undefined;
  let beats = 0;
  let stopped = false;
  let beating: Promise<void> = Promise.resolve();
  let clearing: Promise<void> = Promise.resolve();

  async function beat(): Promise<void> {
    beats += 1;
    if (beats % CLEAR_EVERY === 1) clearing = clear();
    // Then batches are under way, which tell the same once they are decided.
    if (writers.isBusy()) return;
    onPending(await writers.use(look));
  }

  async function clear(): Promise<void> {
    await forgetBatches(readers).catch((error: Error) =>
      logger?.warn({ reason: error.message }, "old batches are forgotten later than they could be"),
    );
  }

  function schedule(): void {
    if (stopped) return;
    timer = setTimeout(() => {
      beating = beat()
        .catch((error: unknown) => onFailure(error instanceof Error ? error.message : String(error)))
        .finally(schedule);
    }, BEAT_MS);
  }

  await beat();
  schedule();
  return async () => {
    stopped = true;
    clearTimeout(timer);
    await Promise.all([beating, clearing]);
  };
}

/** @throws ReadOnlyServer */
async function look(client: ClientBase): Promise<number> {
  const [row] = await sqlOf(client).run(LOOK);
  if (row === undefined) throw new Error("Postgres gave no row");
  if (row.is_read_only) throw new ReadOnlyServer();
  return row.pending;
}
