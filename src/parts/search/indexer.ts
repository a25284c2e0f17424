import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { BackgroundLoop } from "../../core/background-loop.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { type Clock, monotonicClock } from "../../core/clock.ts";
import { LeaseLock, type Locks } from "../../core/lease-lock.ts";
import { decodeMetadata } from "../../delivery/job-call-codec.ts";
import {
  MIN_TEXT_LENGTH,
  SEARCH_SOURCES,
  type SearchIndex,
  type SearchPosition,
  type SearchSource,
  type SearchTerm,
  termOf,
} from "./store/index-contract.ts";

/** Pause while there is nothing to index. */
const IDLE_MS = 1_000;
/**
 * Length of the pause after a step, as a multiple of the step's time, so that the indexer takes a small part of the store's
 * time.
 */
const PAUSE_FACTOR = 20;
const MIN_PAUSE_MS = 5;
/** Longest pause after a slow step, such as the first step after a start, because operators search for new entries. */
const MAX_PAUSE_MS = 5_000;
const RETRY_MS = 5_000;
/** Pause of the second pass over a source while there is nothing to index. */
const IDLE_BEHIND_MS = 10_000;
/**
 * Age of a row from which on no other row can be added before it. Younger rows can be added in any order, because
 * replicas commit concurrently.
 */
const SETTLED_AFTER_MS = 60_000;
/** Time between two searches for entries whose rows were deleted. */
const FORGET_EVERY_MS = 15 * 60_000;
const LOCK = { heldMs: 30_000, renewMs: 10_000 };

/** Most terms of one JobCall. */
const MAX_TERMS = 32;
/**
 * Metadata that is not indexed, because it is equal in all JobCalls of a job, or because another kind of search finds its
 * value.
 */
const OWN_METADATA = /^X-(X402-(?!QUOTE-DIGEST$)|WEBHOOK-|CHAIN-SERVICE-ID$)/;

/** Pass over the rows of one source, from a position on. */
interface Pass {
  readonly source: SearchSource;
  position: SearchPosition;
  /** Least age of the rows that the pass reads. */
  readonly minAgeMs: number;
  /** True if the position is kept over restarts. */
  readonly isStored: boolean;
  readonly idleMs: number;
  dueAt: number;
}

interface Parts {
  readonly index: SearchIndex;
  readonly store: Locks & { readonly isShared: boolean };
  readonly logger: Logger;
  readonly clock?: Clock;
}

/** Fills the index of the search in the background, in small steps, and removes entries whose rows were deleted. */
export class SearchIndexer implements BackgroundService {
  readonly #index: SearchIndex;
  readonly #isShared: boolean;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #lock: LeaseLock;
  readonly #loop: BackgroundLoop;
  /** Passes; undefined until the stored positions were read. */
  #passes: Pass[] | undefined;
  /** Entry after which the search for deleted entries continues; undefined between two searches. */
  #forgetAfter: number | undefined = 0;
  #forgetAt = Number.NEGATIVE_INFINITY;

  constructor({ index, store, logger, clock = monotonicClock }: Parts) {
    this.#index = index;
    this.#isShared = store.isShared;
    this.#logger = logger;
    this.#clock = clock;
    this.#lock = new LeaseLock({ locks: store, name: "search", owner: randomUUID(), ...LOCK });
    this.#loop = new BackgroundLoop({
      step: () => this.#timed(),
      retryMs: RETRY_MS,
      onTrouble: (error) => logger.warn({ err: error }, "could not fill the search index; trying again"),
      onRecovery: () => logger.info("the search index is filled again"),
    });
  }

  start(): Promise<void> {
    return this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await this.#lock.giveUp(this.#logger);
  }

  /** Reads the next rows of each source, and writes them together. @returns true if more may follow at once */
  async step(): Promise<boolean> {
    this.#passes ??= await this.#startPasses();
    const terms: SearchTerm[] = [];
    const moved: { readonly pass: Pass; readonly position: SearchPosition }[] = [];
    let hasMore = false;
    for (const pass of this.#passes.filter(({ dueAt }) => dueAt <= this.#clock())) {
      const read = await this.#index.listUnindexed(pass.source, pass.position, pass.minAgeMs);
      hasMore ||= read.hasMore;
      if (!read.hasMore) pass.dueAt = this.#clock() + pass.idleMs;
      if (read.end === undefined) continue;
      terms.push(...read.terms, ...read.heads.flatMap(metadataTerms));
      moved.push({ pass, position: read.end });
    }
    const stored = moved.flatMap(({ pass: { source, isStored }, position }) =>
      isStored ? { source, position } : [],
    );
    if (terms.length + stored.length > 0) await this.#index.addSearchTerms(terms, stored);
    for (const { pass, position } of moved) pass.position = position;
    return (await this.#forget()) || hasMore;
  }

  /** Begins at the stored positions. A source whose rows can be added behind the first pass gets a second pass. */
  async #startPasses(): Promise<Pass[]> {
    const positions = await this.#index.searchPositions();
    return SEARCH_SOURCES.flatMap((source): Pass[] => {
      const one = { source, position: positions[source], dueAt: Number.NEGATIVE_INFINITY };
      const newest = { ...one, minAgeMs: 0, idleMs: 0 };
      if (!this.#isShared && source !== "settled") return [{ ...newest, isStored: true }];
      const behind = { minAgeMs: SETTLED_AFTER_MS, idleMs: IDLE_BEHIND_MS, isStored: true };
      return [
        { ...newest, isStored: false },
        { ...one, ...behind },
      ];
    });
  }

  async #timed(): Promise<number> {
    // One process fills the index. Only replicas need the lock.
    if (this.#isShared && !(await this.#lock.hold())) {
      this.#passes = undefined;
      return RETRY_MS;
    }
    const startedAt = performance.now();
    const hasMore = await this.step();
    const wantedMs = (performance.now() - startedAt) * PAUSE_FACTOR;
    const pauseMs = Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, wantedMs));
    return hasMore ? pauseMs : Math.max(IDLE_MS, pauseMs);
  }

  /** Removes the next entries whose rows were deleted. @returns true if more entries follow */
  async #forget(): Promise<boolean> {
    if (this.#forgetAfter === undefined && this.#clock() - this.#forgetAt < FORGET_EVERY_MS) return false;
    const after = this.#forgetAfter ?? 0;
    const { isAnyGone, next } = await this.#index.findForgotten(after);
    if (isAnyGone) await this.#index.forgetSearchTerms(after);
    this.#forgetAfter = next;
    if (next === undefined) this.#forgetAt = this.#clock();
    return next !== undefined;
  }
}

function metadataTerms({
  callId,
  head,
}: {
  readonly callId: number;
  readonly head: Uint8Array;
}): SearchTerm[] {
  const terms = new Set<string>();
  for (const [name, value] of Object.entries(metadataIn(head)))
    if (!OWN_METADATA.test(name) && value.length >= MIN_TEXT_LENGTH) terms.add(termOf("metadata", value));
  return [...terms].slice(0, MAX_TERMS).map((term) => ({ kind: "metadata", term, entry: callId }));
}

/** Reads metadata. A JobCall that a disk has damaged must not stop the index. */
function metadataIn(head: Uint8Array): Readonly<Record<string, string>> {
  try {
    return decodeMetadata(head);
  } catch {
    return {};
  }
}
