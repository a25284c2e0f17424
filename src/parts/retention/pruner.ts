import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import type { CallFilter } from "../../store/contract/operator-lists.ts";
import type { PrunedKind, PruneOutcome, Pruning } from "../../store/contract/pruning.ts";
import type { Store } from "../../store/store.ts";
import type { RetentionConfig } from "./config.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Rounds within the shortest age, for ages of less than a day. */
const ROUNDS_PER_AGE = 24;
const MIN_ROUND_MS = 1_000;
const MAX_FIRST_ROUND_MS = 60_000;
/**
 * Length of the pause after a step, as a multiple of the step, so that the pruner takes a small part of the store's
 * time.
 */
const PAUSE_FACTOR = 12;
const MIN_PAUSE_MS = 5;
const DEAD_LETTERS_AT_ONCE = 100;

interface Parts {
  readonly store: Pruning & Pick<Store, "listCalls" | "dropDeadLetter">;
  readonly retention: RetentionConfig;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Forgets what is older than `[store.retention]` says. It works in rounds, in the background, one small step after the
 * other.
 */
export class Pruner implements BackgroundService {
  readonly #parts: Parts;
  /** Ages in the order of pruning, in which a payment comes after its call and its result. */
  readonly #ages: readonly (readonly [kind: PrunedKind, ageMs: number])[];
  readonly #roundMs: number;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(parts: Parts) {
    const { resultsDays, callsDays, paymentsDays, deadLettersDays } = parts.retention;
    const days = [resultsDays, callsDays, paymentsDays ?? resultsDays, deadLettersDays ?? resultsDays];
    this.#parts = parts;
    this.#ages = [
      ["results", resultsDays * DAY_MS],
      ["calls", callsDays * DAY_MS],
      ["chunks", 0],
      ...(paymentsDays === undefined ? [] : [["payments", paymentsDays * DAY_MS] as const]),
    ];
    const roundMs = (Math.min(...days) * DAY_MS) / ROUNDS_PER_AGE;
    this.#roundMs = Math.max(MIN_ROUND_MS, Math.min(HOUR_MS, roundMs));
  }

  async start(): Promise<void> {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    await this.#pause(Math.min(this.#roundMs, MAX_FIRST_ROUND_MS));
    while (!this.#isStopping()) {
      await this.runRound().catch((error: unknown) =>
        this.#parts.logger.warn({ err: error }, "could not forget old entries; trying again later"),
      );
      await this.#pause(this.#roundMs);
    }
  }

  /** Forgets everything that is old now. */
  async runRound(): Promise<void> {
    const { store, logger } = this.#parts;
    const removed = {
      deadLetters: await this.#dropDeadLetters(),
      results: 0,
      calls: 0,
      payments: 0,
      chunks: 0,
    };
    for (const [kind, ageMs] of this.#ages) {
      for (let after: number | undefined = 0; after !== undefined && !this.#isStopping(); ) {
        const step: PruneOutcome = await this.#inTurn(store.prune({ kind, ageMs, after }));
        removed[kind] += step.removed;
        after = step.next;
      }
    }
    while (!this.#isStopping() && (await this.#inTurn(store.shrink())));
    if (Object.values(removed).some((count) => count > 0)) logger.info(removed, "forgot old entries");
  }

  async #dropDeadLetters(): Promise<number> {
    const { store, retention, clock } = this.#parts;
    if (retention.deadLettersDays === undefined) return 0;
    const until = clock() - retention.deadLettersDays * DAY_MS;
    let dropped = 0;
    for (let before: number | undefined = Number.MAX_SAFE_INTEGER; before !== undefined; ) {
      if (this.#isStopping()) break;
      const filter: CallFilter = { state: "dead", limit: DEAD_LETTERS_AT_ONCE, before, until };
      const page = await this.#inTurn(store.listCalls(filter));
      const old = page.items.filter(({ finishedAt = until }) => finishedAt < until);
      const drops = await this.#inTurn(Promise.all(old.map(({ callId }) => store.dropDeadLetter(callId))));
      dropped += drops.filter((isDropped) => isDropped).length;
      before = page.next;
    }
    return dropped;
  }

  /** Waits for a step, and then long enough to leave the store to other work. */
  async #inTurn<Outcome>(step: Promise<Outcome>): Promise<Outcome> {
    const startedAt = performance.now();
    const outcome = await step;
    await this.#pause(Math.max(MIN_PAUSE_MS, (performance.now() - startedAt) * PAUSE_FACTOR));
    return outcome;
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }
}
