import type { Pool } from "pg";
import { withClient } from "./connections.ts";
import { forgetBatches } from "./outcome.ts";
import { sqlOf, statement } from "./sql.ts";

const BEAT_MS = 1_000;
/** Beats between two clearings. */
const CLEAR_EVERY = 60;

const READ_PENDING = statement<{ pending: number }>(
  "read_pending",
  "SELECT sum(n)::bigint AS pending FROM jobgate.pending",
);

/**
 * Looks at the database once a second, also without traffic: how much other replicas have pending, and whether it is
 * there at all. Clears up now and then.
 * Resolves after the first look.
 * @returns a function that stops it, and waits for what is under way
 * @throws Error when the first look fails
 */
export async function startHeartbeat(options: {
  readonly readers: Pool;
  readonly onPending: (pending: number) => void;
  readonly onFailure: (reason: string) => void;
}): Promise<() => Promise<void>> {
  const { readers, onPending, onFailure } = options;
  let timer: NodeJS.Timeout | undefined;
  let beats = 0;
  let stopped = false;
  let beating: Promise<void> = Promise.resolve();

  async function beat(): Promise<void> {
    const [row] = await withClient(readers, (client) => sqlOf(client).run(READ_PENDING));
    if (row !== undefined) onPending(row.pending);
    if (beats % CLEAR_EVERY === 0) await forgetBatches(readers);
    beats += 1;
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
  return () => {
    stopped = true;
    clearTimeout(timer);
    return beating;
  };
}
