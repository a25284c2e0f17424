import { once } from "node:events";
import { PassThrough } from "node:stream";
import type { LiveAnswer, LiveAnswers } from "../../x402/calls/live-answers.ts";
import type { HttpOutcome } from "../outbound/http-answer.ts";
import type { AnswerHead, HttpExchange } from "../outbound/http-client.ts";
import type { AnswerPassing } from "../outbound/http-runner.ts";

/** Most bytes that wait for a buyer who has not come yet. */
const MOST_UNTAKEN_BYTES = 1_048_576;

type Take = (answer: LiveAnswer) => void;

/** Answers of APIs that their buyers get while they arrive. The buyer of a call and its request to the API come in any order. */
export class PassedAnswers implements LiveAnswers {
  readonly #answers = new Map<number, PassedAnswer>();

  onBegun(callId: number, closed: AbortSignal, take: Take): () => void {
    const answer = this.#of(callId);
    if (!answer.offer(take)) return () => undefined;
    return () => {
      answer.withdraw(closed.aborted);
      if (!answer.isAsked) this.#answers.delete(callId);
    };
  }

  /**
   * Expects the answer to a request that is about to be sent.
   * @param onLeft called when the buyer leaves before the end
   */
  expect(callId: number, onLeft: () => void): PassedAnswer {
    const answer = this.#of(callId);
    answer.ask(onLeft, () => this.#answers.delete(callId));
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
  #take: Take | undefined;
  #onLeft: (() => void) | undefined;
  #onEnd: (() => void) | undefined;

  constructor() {
    // A buyer who has left, or never came, does not hear that the answer breaks off.
    this.#body.on("error", () => undefined);
  }

  /** True once the API is asked. */
  get isAsked(): boolean {
    return this.#onEnd !== undefined;
  }

  ask(onLeft: () => void, onEnd: () => void): void {
    this.#onLeft = onLeft;
    this.#onEnd = onEnd;
  }

  /** Gives the answer to a buyer once it begins. @returns false if another buyer has it, or it was not kept for this one */
  offer(take: Take): boolean {
    if (this.#take !== undefined || this.#body.destroyed) return false;
    this.#take = take;
    if (this.#head !== undefined) this.#give(this.#head);
    return true;
  }

  /** The buyer no longer waits for the answer to begin. */
  withdraw(hasLeft: boolean): void {
    if (this.#head !== undefined) return;
    this.#take = undefined;
    if (hasLeft) this.#onLeft?.();
  }

  begin(head: LiveAnswer["head"]): void {
    this.#head = head;
    if (this.#take !== undefined) this.#give(head);
  }

  #give(head: LiveAnswer["head"]): void {
    this.#take?.({ head, bytes: (closed) => this.#bytes(closed) });
  }

  #bytes(closed: AbortSignal): AsyncIterable<Uint8Array> {
    const leave = () => {
      if (this.#body.destroyed) return;
      this.#body.destroy();
      this.#onLeft?.();
    };
    if (closed.aborted) leave();
    else closed.addEventListener("abort", leave, { once: true });
    return this.#body;
  }

  /** Passes bytes on. Resolves once more may come: when the buyer has taken enough of them, or has left. */
  async write(bytes: Uint8Array): Promise<void> {
    const body = this.#body;
    if (this.#head === undefined || body.destroyed || body.write(bytes)) return;
    if (this.#take === undefined) {
      if (body.readableLength + body.writableLength > MOST_UNTAKEN_BYTES) body.destroy();
      return;
    }
    const over = new AbortController();
    const events = ["drain", "close"].map((event) => once(body, event, { signal: over.signal }));
    await Promise.race(events);
    over.abort();
    await Promise.allSettled(events);
  }

  /** Ends an answer that is stored, or breaks it off. */
  end(isStored: boolean): void {
    this.#onEnd?.();
    this.#onLeft = undefined;
    if (isStored && this.#take !== undefined) this.#body.end();
    else this.#body.destroy(new Error("the answer broke off"));
  }
}

interface Terms {
  readonly callId: number;
  /** Most bytes that are kept for the buyer who sends the request again. */
  readonly maxBytes: number;
  readonly endsWithBuyer: boolean;
  /** Returns undefined for an answer that its buyer does not get. */
  readonly beginningOf: (head: AnswerHead) => LiveAnswer["head"] | undefined;
}

/** Passes the answer to one request on to its buyer, at the pace at which the buyer takes it. */
export class AnswerToBuyer implements AnswerPassing {
  readonly #answers: PassedAnswers;
  readonly #terms: Terms;
  #answer: PassedAnswer | undefined;
  #size = 0;
  #isCut = false;

  constructor(answers: PassedAnswers, terms: Terms) {
    this.#answers = answers;
    this.#terms = terms;
  }

  start(request: Pick<HttpExchange, "cut">): void {
    const { callId, endsWithBuyer } = this.#terms;
    this.#answer = this.#answers.expect(callId, () => {
      if (!endsWithBuyer) return;
      this.#isCut = true;
      request.cut("nothing before its buyer left");
    });
  }

  begin(head: AnswerHead): void {
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

  /** Marks an answer of which only a part is kept. */
  marked(outcome: HttpOutcome): HttpOutcome {
    if (outcome.kind !== "answered" || !this.#isCut) return outcome;
    return { ...outcome, answer: { ...outcome.answer, isCut: true } };
  }

  end(isStored: boolean): void {
    this.#answer?.end(isStored);
  }
}
