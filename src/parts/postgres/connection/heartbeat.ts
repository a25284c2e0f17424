import type { ClientBase } from "pg";
import type { Logger } from "pino";
import type { Clock } from "../../../core/clock.ts";
import { refuseNewer } from "../../../store/schema-version.ts";
import { countUncounted } from "../batch/undecided.ts";
import { forgetBatches } from "../commit/outcome.ts";
import { MIGRATIONS } from "../schema/migrations.ts";
import { sqlOf, statement } from "../sql.ts";
import type { ConnectionPool } from "./connection-pool.ts";
import { ReadOnlyServer } from "./database-errors.ts";

const BEAT_MS = 1_000;
/** Checks between two deletions of old batch notes. */
const CLEAR_EVERY = 60;
/** Checks that are left out in succession while batches show that writes work. Batches do not show a newer schema. */
const MAX_LEFT_OUT = 9;

interface Look {
  readonly pending: number;
  readonly is_read_only: boolean;
  readonly version: number;
  readonly usable_from: number;
}
const LOOK = statement<Look>(
  "look",
  `SELECT pending.*, schema_version.version, schema_version.usable_from
     FROM (SELECT sum(n)::bigint AS pending, current_setting('transaction_read_only') = 'on' AS is_read_only
             FROM jobgate.pending) AS pending
    CROSS JOIN jobgate.schema_version`,
);

// Changes no table. Its commit waits for the disk and the synchronous standbys.
const WRITE = statement("beat", "SELECT pg_logical_emit_message(true, 'jobgate', '')");

/** The tables were changed by a newer jobgate, so that this one cannot use them. */
class OutdatedProgram extends Error {
  override readonly name = "OutdatedProgram";
}

/**
 * Checks the database once a second, also without traffic: whether it can be written to, how many JobCalls other
 * replicas have pending, and whether this jobgate can still use the tables, which a newer jobgate may have changed.
 * Deletes old batch notes now and then.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;
  #leftOut = 0;
  #stopped = false;
  #beating: Promise<void> = Promise.resolve();
  #clearing: Promise<void> = Promise.resolve();

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /**
   * Resolves after the first check, which does not write.
   * @throws Error when the first check fails
   */
  async start(): Promise<void> {
    const { writers, onPending } = this.#options;
    onPending(await writers.use((client) => look(client, this.#options)));
    this.#schedule();
  }

  /** Waits for a check in progress. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await Promise.all([this.#beating, this.#clearing]);
  }

  async #beat(): Promise<void> {
    const { writers, onPending, onHang, isWritable, hangMs } = this.#options;
    this.#beats += 1;
    if (this.#beats % CLEAR_EVERY === 1 && isWritable()) this.#clearing = this.#clear();
    // A busy pool means that batches are in progress. They report whether writes work, once they are decided or when
    // they hang.
    if (writers.isBusy() && !(isWritable() && this.#leftOut >= MAX_LEFT_OUT)) {
      this.#leftOut += 1;
      return;
    }
    this.#leftOut = 0;
    const timer = setTimeout(onHang, hangMs);
    try {
      const pending = await writers.use(async (client) => {
        const counted = await look(client, this.#options);
        // A commit that hangs keeps its connection at the server, so only the probe continues to commit.
        if (isWritable()) await sqlOf(client).run(WRITE);
        return counted;
      });
      onPending(pending);
    } finally {
      clearTimeout(timer);
    }
  }

  async #clear(): Promise<void> {
    const { readers, logger } = this.#options;
    await forgetBatches(readers).catch((error: Error) =>
      logger?.warn({ reason: error.message }, "old batches could not be forgotten yet"),
    );
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
        .catch((error: unknown) => {
          const { onFailure, onOutdated } = this.#options;
          const report = error instanceof OutdatedProgram ? onOutdated : onFailure;
          report(error instanceof Error ? error.message : String(error));
        })
        .finally(() => this.#schedule());
    }, BEAT_MS);
  }
}

interface HeartbeatOptions {
  /** Used for the checks, because they show whether writes work: lookups may be slow at the same time. */
  readonly writers: ConnectionPool;
  readonly readers: ConnectionPool;
  readonly logger: Logger | undefined;
  readonly maxPending: number;
  /** Replaces the database's clock in tests. */
  readonly clock: Clock | undefined;
  /** Called with the number of JobCalls that `maxPending` includes. */
  readonly onPending: (pending: number) => void;
  readonly onFailure: (reason: string) => void;
  /** Called when a newer jobgate has changed the tables so that this one cannot use them any more. */
  readonly onOutdated: (reason: string) => void;
  readonly isWritable: () => boolean;
  /** Called when a check has not been answered for `hangMs`. */
  readonly onHang: () => void;
  readonly hangMs: number;
}

/** @throws ReadOnlyServer, OutdatedProgram */
async function look(
  client: ClientBase,
  { maxPending, clock }: Pick<HeartbeatOptions, "maxPending" | "clock">,
): Promise<number> {
  const sql = sqlOf(client);
  const [row] = await sql.run(LOOK);
  if (row === undefined) throw new Error("Postgres gave no row");
  if (row.is_read_only) throw new ReadOnlyServer();
  try {
    refuseNewer(MIGRATIONS, row.version, row.usable_from);
  } catch (error) {
    throw new OutdatedProgram((error as Error).message, { cause: error });
  }
  if (row.pending < maxPending) return row.pending;
  return row.pending - (await countUncounted(sql, clock?.() ?? null));
}
