import { createHash } from "node:crypto";
import { type BodyProblem, type BodySchema, startCpuClock } from "../../core/body-schema.ts";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { CheckBudget } from "./check-budget.ts";
import { SchemaThread } from "./schema-thread.ts";

/** CPU time after which a check here is given up; one that other processes interrupted takes up to twice as much. */
const MAX_HERE_MS = 5;
/** Largest body that is checked here: to parse a larger one takes that time already. */
const MAX_HERE_BYTES = 64 * 1024;
/** The same once all clients together have used their time. A check of an ordinary body takes 0.1 ms. */
const LEAST_HERE_MS = 2;
/** Time of a check that is no more than any request takes, and is not counted. */
const FREE_MS = 1;
/** Time that a waiting check is counted with before its own is known. */
const EXPECTED_MS = 10;
/** Bound on the outcomes that are kept, so that a buyer's paid request takes no time for the body of its unpaid one. */
const MAX_KNOWN = 1_000;

/** A schema as text and compiled. */
export interface InputSchema {
  readonly text: string;
  readonly compiled: BodySchema;
}

/** Problems of a body; or the milliseconds after which its client may send it again, because it was not checked. */
type Outcome = readonly BodyProblem[] | number;

/**
 * Checks bodies in the time that a budget leaves for them: the fast ones at once, the others in a thread and one after
 * another. A request with a payment is no exception, because nothing is known about the payment yet.
 */
export class BodyChecks {
  readonly #budget = new CheckBudget();
  readonly #thread = new SchemaThread();
  readonly #known = boundedCache<string, readonly BodyProblem[]>(MAX_KNOWN);
  readonly #clock: Clock;
  #last: Promise<unknown> = Promise.resolve();

  /** @param clock measures the durations in which clients earn their time back */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param client whose time is used @throws Error when the thread died */
  async check(client: string, schema: InputSchema, body: Uint8Array): Promise<Outcome> {
    return this.#checkHere(client, schema, body) ?? (await this.#checkInThread(client, schema, body));
  }

  /** Ends the thread. */
  stop(): Promise<void> {
    return this.#thread.stop();
  }

  /** Returns undefined for a body that takes too long, and for a client that has used its time. */
  #checkHere(
    client: string,
    { compiled }: InputSchema,
    body: Uint8Array,
  ): readonly BodyProblem[] | undefined {
    const now = this.#clock();
    if (body.length > MAX_HERE_BYTES || this.#budget.waitMs(client, now) !== undefined) return undefined;
    const limitMs = this.#budget.isUsedUp(now) ? LEAST_HERE_MS : MAX_HERE_MS;
    const cpuMs = startCpuClock();
    const problems = compiled.checkWithin(limitMs, body);
    const ms = cpuMs();
    if (ms > FREE_MS) this.#budget.spend(client, ms, this.#clock(), problems === undefined);
    return problems;
  }

  async #checkInThread(client: string, { text }: InputSchema, body: Uint8Array): Promise<Outcome> {
    const key = createHash("sha256").update(text).update("\0").update(body).digest("base64");
    const now = this.#clock();
    const outcome = this.#known.get(key) ?? this.#budget.waitMs(client, now, true);
    if (outcome !== undefined) return outcome;
    this.#budget.spend(client, EXPECTED_MS, now);
    const turn = this.#last.then(async () => {
      const startsAt = this.#clock();
      this.#budget.spend(client, -EXPECTED_MS, startsAt);
      // The client's other bodies may have used its time up since, or another client brought the same body.
      const meanwhile = this.#known.get(key) ?? this.#budget.ownWaitMs(client, startsAt);
      if (meanwhile !== undefined) return meanwhile;
      const { problems, ms } = await this.#thread.check({ schema: text, body });
      this.#budget.spend(client, ms, this.#clock());
      this.#known.set(key, problems);
      return problems;
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
