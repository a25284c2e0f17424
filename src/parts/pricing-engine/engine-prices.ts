import type { Logger } from "pino";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import { MAX_TIMER_MS } from "../../core/waiting.ts";
import { type JobPrice, type PriceSource, priceUnavailable } from "../../x402/prices/price-source.ts";
import type { EngineQuotes, QuoteAnswer } from "./engine-quotes.ts";
import { isExpired, MAX_QUOTED_JOB_INDEX, toPrice } from "./job-quote.ts";
import type { Question } from "./question-slots.ts";
import type { JobQuote } from "./quotes.ts";

/** An answer without a quote. */
type Refusal = Exclude<QuoteAnswer, { kind: "quote" }>;

/** A quote that is the price of its job. */
interface CurrentQuote {
  readonly quote: JobQuote;
  /** Time from which the quote is renewed before it ends, Unix milliseconds. */
  readonly renewAtMs: number;
  readonly renewTimer: NodeJS.Timeout;
  /** True if the quote was used as the price at least once. Only then is it renewed before a client needs it. */
  isUsed: boolean;
}

/** A query that has no answer yet. */
interface OpenQuestion extends Question {
  readonly price: Promise<JobPrice | undefined>;
}

const MAX_REMEMBERED = 10_000;
/**
 * Time for which a refusal is cached. Anyone can request the price of any job, and a burst of requests should cause only one
 * call of the engine.
 */
const UNPRICED_MS = 5_000;
const FAILED_MS = 300;
/** Longest time that a request waits for a price. The query continues, so that the next request finds its answer. */
export const MAX_WAIT_MS = 20_000;
const MAX_QUESTIONS = 1_000;
/** Part of a quote's lifetime after which it is renewed. */
const RENEW_AFTER = 2 / 3;
/**
 * Time before its end at which a quote is renewed, because its last seconds are too short for a payment. A quote is
 * never renewed in its first third.
 */
const RENEW_AHEAD_MS = 10_000;
const RENEW_NOT_BEFORE = 1 / 3;

/**
 * Prices from the operator's pricing engine. A quote is the price of its job until another quote comes or it expires.
 */
export class EnginePrices implements PriceSource {
  readonly #source: EngineQuotes;
  readonly #clock: Clock;
  readonly #elapsed: Clock;
  readonly #logger: Logger;
  readonly #maxWaitMs: number;
  readonly #quotes = boundedCache<string, CurrentQuote>(MAX_REMEMBERED, ({ renewTimer }) =>
    clearTimeout(renewTimer),
  );
  /** Refusals by job, each until a time of {@link #elapsed}. */
  readonly #refusals = boundedCache<string, { readonly answer: Refusal; readonly untilMs: number }>(
    MAX_REMEMBERED,
  );
  readonly #open = new Map<string, OpenQuestion>();

  constructor(parts: {
    readonly quotes: EngineQuotes;
    /** Wall clock, on which quotes expire. */
    readonly clock: Clock;
    /** Measures durations. */
    readonly elapsed: Clock;
    readonly logger: Logger;
    readonly maxWaitMs?: number | undefined;
  }) {
    this.#source = parts.quotes;
    this.#clock = parts.clock;
    this.#elapsed = parts.elapsed;
    this.#logger = parts.logger;
    this.#maxWaitMs = parts.maxWaitMs ?? MAX_WAIT_MS;
  }

  async priceOf(job: JobKey): Promise<JobPrice | undefined> {
    if (job.jobIndex > MAX_QUOTED_JOB_INDEX) return undefined;
    const key = jobKeyText(job.serviceId, job.jobIndex);
    const current = this.#quotes.get(key);
    if (current !== undefined && !isExpired(current.quote, this.#clock())) {
      current.isUsed = true;
      if (this.#clock() >= current.renewAtMs) this.#renew(job, key);
      return toPrice(current.quote);
    }
    const refusal = this.#refusalOf(key);
    if (refusal !== undefined) return withoutQuote(refusal);
    const question = this.#ask(job, key, { urgent: true });
    question.urgent = true;
    return this.#inTime(question.price);
  }

  /** Ends the renewal of quotes. */
  stop(): void {
    this.#quotes.clear();
  }

  /** Requests the next quote of a job. If there is none, the present quote stays the price until it ends. */
  #renew(job: JobKey, key: string): void {
    if (this.#refusalOf(key) !== undefined || this.#open.size >= MAX_QUESTIONS) return;
    this.#ask(job, key, { urgent: false }).price.catch(() => undefined);
  }

  #refusalOf(key: string): Refusal | undefined {
    const refusal = this.#refusals.get(key);
    return refusal !== undefined && this.#elapsed() < refusal.untilMs ? refusal.answer : undefined;
  }

  /** Returns the open query about a job, or starts a new query. */
  #ask(job: JobKey, key: string, question: Question): OpenQuestion {
    const open = this.#open.get(key);
    if (open !== undefined) return open;
    if (this.#open.size >= MAX_QUESTIONS) throw priceUnavailable("too many jobs wait for their price");
    const price = this.#answer(job, key, question).finally(() => this.#open.delete(key));
    const asked: OpenQuestion = Object.assign(question, { price });
    this.#open.set(key, asked);
    return asked;
  }

  async #answer(job: JobKey, key: string, question: Question): Promise<JobPrice | undefined> {
    const answer = await this.#source.ask(job, question);
    if (answer.kind === "quote") {
      this.#remember(job, key, answer.quote);
      return toPrice(answer.quote);
    }
    const forMs = answer.kind === "unpriced" ? UNPRICED_MS : FAILED_MS;
    this.#refusals.set(key, { answer, untilMs: this.#elapsed() + forMs });
    logRefusal(this.#logger, job, answer);
    return withoutQuote(answer);
  }

  #remember(job: JobKey, key: string, quote: JobQuote): void {
    const renewInMs = renewalMs(quote, this.#clock());
    const renewTimer = setTimeout(
      () => {
        if (this.#quotes.peek(key)?.isUsed) this.#renew(job, key);
      },
      Math.min(renewInMs, MAX_TIMER_MS),
    ).unref();
    this.#quotes.set(key, { quote, renewAtMs: this.#clock() + renewInMs, renewTimer, isUsed: false });
  }

  async #inTime(price: Promise<JobPrice | undefined>): Promise<JobPrice | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(priceUnavailable("the pricing engine is busy with other jobs")),
        this.#maxWaitMs,
      );
    });
    return Promise.race([price, late]).finally(() => clearTimeout(timer));
  }
}

/** Returns the time after which a quote is replaced ahead of its end. @param nowMs Unix milliseconds */
export function renewalMs({ expiry }: Pick<JobQuote, "expiry">, nowMs: number): number {
  const lifetimeMs = Math.max(0, Number(expiry) * 1000 - nowMs);
  return Math.max(
    Math.min(lifetimeMs * RENEW_AFTER, lifetimeMs - RENEW_AHEAD_MS),
    lifetimeMs * RENEW_NOT_BEFORE,
  );
}

/** Logs the reason why the engine gave no quote. A job without a price is not logged. */
export function logRefusal(logger: Logger, { serviceId, jobIndex }: JobKey, answer: Refusal): void {
  if (answer.kind === "unpriced") return;
  const { kind, reason } = answer;
  const job = jobKeyText(serviceId, jobIndex);
  if (kind === "untrustworthy") logger.error({ job, reason }, "pricing engine's quote refused");
  else logger.warn({ job, reason }, "pricing engine returned no quote");
}

/** @throws GatewayError `price_unavailable`, unless the engine said that the job has no price */
export function withoutQuote(answer: Refusal): undefined {
  switch (answer.kind) {
    case "unpriced":
      return undefined;
    case "unavailable":
      throw priceUnavailable("the pricing engine returned no quote");
    case "untrustworthy":
      throw priceUnavailable("the pricing engine's quote could not be verified");
  }
}
