import { once } from "node:events";
import { PassThrough, type Readable } from "node:stream";
import type { LiveAnswer, LiveAnswers } from "../../x402/calls/live-answers.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";
import type { AnswerHead, HttpExchange } from "../outbound/http-client.ts";
import type { AnswerPassing } from "../outbound/http-runner.ts";

/** Largest number of bytes that wait for a buyer whose request has not arrived yet. */
const MOST_UNTAKEN_BYTES = 1_048_576;

/** Time after the last request of a payment has disconnected, in which the buyer can resend it before the call ends. */
const RETURN_MS = 1_000;
/** Time at the end of a call for reading the rest of an answer whose buyer was too slow. */
const REST_MS = 1_000;

type Take = (answer: LiveAnswer) => void;

/**
 * Answers of APIs that their buyers get while they arrive. The buyer of a call can join before or after the request to
 * the API is sent.
 */
export class PassedAnswers implements LiveAnswers {
  readonly #answers = new Map<number, PassedAnswer>();

  onBegun(callId: number, closed: AbortSignal, take?: Take): () => void {
    // A buyer who has disconnected does not wait.
    if (closed.aborted) return () => undefined;
    const answer = this.#of(callId);
    answer.join(take);
    return () => {
      answer.stopWaiting(take, closed.aborted);
      if (answer.isIdle) this.#answers.delete(callId);
    };
  }

  /**
   * Expects the answer to a request that is about to be sent.
   * @param onDeserted called when no request of the payment is connected any more, once the answer has begun
   */
  expect(callId: number, onDeserted: () => void): PassedAnswer {
    const answer = this.#of(callId);
    answer.ask(onDeserted, () => this.#answers.delete(callId));
    return answer;
  }

  #of(callId: number): PassedAnswer {
    const answer = this.#answers.get(callId) ?? new PassedAnswer();
    this.#answers.set(callId, answer);
    return answer;
  }
}

/** An answer that is passed to its buyer. */
export class PassedAnswer {
  readonly #body = new PassThrough();
  #head: LiveAnswer["head"] | undefined;
  /** Requests that wait for the answer to begin. The first of them gets it. */
  readonly #takes = new Set<Take>();
  #taker: Take | undefined;
  /** Number of requests of the payment that are still connected. */
  #present = 0;
  /** True once the last of them has disconnected. */
  #isDeserted = false;
  #return: NodeJS.Timeout | undefined;
  #isHeld = false;
  #onDeserted: (() => void) | undefined;
  #onEnd: (() => void) | undefined;

  constructor() {
    // A buyer who has disconnected, or never connected, does not see that the answer breaks off.
    this.#body.on("error", () => undefined);
  }

  /** True while the API is not being called and no request waits. */
  get isIdle(): boolean {
    return this.#onEnd === undefined && this.#present === 0;
  }

  /** True while the API waits for the buyer to read more. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  ask(onDeserted: () => void, onEnd: () => void): void {
    this.#onDeserted = onDeserted;
    this.#onEnd = onEnd;
  }

  /** Adds a request of the payment. @param take receives the answer; undefined if the request waits for the whole answer */
  join(take: Take | undefined): void {
    this.#present++;
    this.#isDeserted = false;
    clearTimeout(this.#return);
    if (take === undefined || this.#taker !== undefined || this.#body.destroyed) return;
    this.#takes.add(take);
    if (this.#head !== undefined) this.#give(this.#head);
  }

  /**
   * Ends a request's wait for the beginning of the answer. The request that already gets the answer continues to
   * receive its bytes.
   */
  stopWaiting(take: Take | undefined, hasLeft: boolean): void {
    if (take !== undefined && take === this.#taker) return;
    if (take !== undefined) this.#takes.delete(take);
    this.#remove(hasLeft);
  }

  #remove(hasLeft: boolean): void {
    this.#present--;
    if (!hasLeft || this.#present > 0) return;
    this.#isDeserted = true;
    this.#awaitReturn();
  }

  /**
   * Gives a disconnected buyer time to reconnect. The time is unlimited until the answer begins, because the buyer has
   * missed nothing.
   */
  #awaitReturn(): void {
    if (this.#head === undefined) return;
    this.#return = setTimeout(() => this.#onDeserted?.(), RETURN_MS).unref();
  }

  begin(head: LiveAnswer["head"]): void {
    this.#head = head;
    this.#give(head);
    if (this.#isDeserted) this.#awaitReturn();
  }

  #give(head: LiveAnswer["head"]): void {
    const [take] = this.#takes;
    this.#takes.clear();
    this.#taker = take;
    take?.({ head, bytes: (closed) => this.#bytes(closed) });
  }

  #bytes(closed: AbortSignal): Readable {
    const leave = () => {
      // The answer may have ended, or broken off, before.
      this.#body.destroy();
      this.#remove(true);
    };
    if (closed.aborted) leave();
    else closed.addEventListener("abort", leave, { once: true });
    return this.#body;
  }

  /** Passes bytes on. Resolves when more bytes may follow, because the buyer has read enough of them or has disconnected. */
  async write(bytes: Uint8Array): Promise<void> {
    const body = this.#body;
    if (this.#head === undefined || body.destroyed || body.write(bytes)) return;
    if (this.#taker === undefined) {
      if (body.readableLength + body.writableLength > MOST_UNTAKEN_BYTES) body.destroy();
      return;
    }
    this.#isHeld = true;
    const over = new AbortController();
    const events = ["drain", "close"].map((event) => once(body, event, { signal: over.signal }));
    await Promise.race(events.map((event) => event.catch(() => undefined)));
    over.abort();
    await Promise.allSettled(events);
    this.#isHeld = false;
  }

  /** Breaks the answer and the connection of its buyer off. Bytes that are written later are not passed on. */
  breakOff(): void {
    this.#body.destroy(new Error("the answer broke off"));
  }

  /** Ends an answer that is stored, or breaks it off. */
  end(isStored: boolean): void {
    this.#onEnd?.();
    this.#onDeserted = undefined;
    clearTimeout(this.#return);
    if (isStored && this.#taker !== undefined) this.#body.end();
    else this.breakOff();
  }
}

interface Terms {
  readonly callId: number;
  /** Largest number of bytes that are kept for a buyer who resends the request. */
  readonly maxBytes: number;
  readonly endsWithBuyer: boolean;
  /** Returns undefined for an answer that its buyer does not get. */
  readonly beginningOf: (head: AnswerHead) => LiveAnswer["head"] | undefined;
}

/** Passes the answer to one request on to its buyer, at the buyer's pace. */
export class AnswerToBuyer implements AnswerPassing {
  readonly #answers: PassedAnswers;
  readonly #terms: Terms;
  #answer: PassedAnswer | undefined;
  #request: Pick<HttpExchange, "cut"> | undefined;
  #head: AnswerHead | undefined;
  #size = 0;
  #isCut = false;
  /** Set once the buyer was too slow for the time that the call has. */
  #overdue: NodeJS.Timeout | undefined;

  constructor(answers: PassedAnswers, terms: Terms) {
    this.#answers = answers;
    this.#terms = terms;
  }

  start(request: Pick<HttpExchange, "cut">): void {
    const { callId, endsWithBuyer } = this.#terms;
    this.#request = request;
    this.#answer = this.#answers.expect(callId, () => {
      if (endsWithBuyer) this.#cut();
    });
  }

  #cut(): void {
    this.#isCut = true;
    this.#request?.cut("nothing before its buyer left");
  }

  begin(head: AnswerHead): void {
    this.#head = head;
    const shown = this.#terms.beginningOf(head);
    if (shown !== undefined) this.#answer?.begin(shown);
  }

  async pass(bytes: Buffer): Promise<Buffer> {
    await this.#answer?.write(bytes);
    const kept = bytes.subarray(0, Math.max(0, this.#terms.maxBytes - this.#size));
    this.#size += bytes.byteLength;
    if (kept.byteLength < bytes.byteLength) this.#isCut = true;
    return kept;
  }

  /** Reads for a moment what the API has already sent, if its buyer was too slow for the answer to end in time. */
  overdue(): boolean {
    if (this.#answer?.isHeld !== true) return false;
    this.#answer.breakOff();
    this.#overdue = setTimeout(() => this.#cut(), REST_MS);
    return true;
  }

  stop(): void {
    this.#answer?.breakOff();
  }

  /**
   * Marks an answer of which only a part is kept, for example because a slow buyer broke off. Such an answer is not a
   * failure.
   */
  marked(outcome: HttpOutcome): HttpOutcome {
    clearTimeout(this.#overdue);
    if (outcome.kind === "lost" && this.#overdue !== undefined && this.#head !== undefined) {
      const nothing = { contentEncoding: undefined, retryAfter: undefined, body: Buffer.alloc(0) };
      return { kind: "answered", answer: { ...this.#head, ...nothing, isCut: true } };
    }
    if (outcome.kind !== "answered" || !this.#isCut) return outcome;
    return { ...outcome, answer: { ...outcome.answer, isCut: true } };
  }

  end(isStored: boolean): void {
    clearTimeout(this.#overdue);
    this.#answer?.end(isStored);
  }
}
