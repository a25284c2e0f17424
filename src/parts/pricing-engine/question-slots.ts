/** Largest number of queries in progress. The engine makes a proof of work for each answer. */
const MAX_SLOTS = 4;

/** A query that is waiting or running. `urgent` may be set while it waits. */
export interface Question {
  /** A request waits for the answer. */
  urgent: boolean;
}

/**
 * Bound on concurrent queries to the engine. An overloaded engine answers all queries too late. After a late answer the
 * bound is halved, and each timely answer lets it grow again.
 */
export class QuestionSlots {
  readonly #waiting: { readonly question: Question; readonly start: () => void }[] = [];
  #slots = MAX_SLOTS;
  #taken = 0;

  /** Runs a query when its turn comes: urgent queries first, then in the order of arrival. */
  async run<T>(question: Question, ask: () => Promise<T>, isLate: (answer: T) => boolean): Promise<T> {
    await new Promise<void>((start) => {
      this.#waiting.push({ question, start });
      this.#startWaiting();
    });
    try {
      const answer = await ask();
      this.#slots = isLate(answer)
        ? Math.max(1, this.#slots / 2)
        : Math.min(MAX_SLOTS, this.#slots + 1 / this.#slots);
      return answer;
    } finally {
      this.#taken -= 1;
      this.#startWaiting();
    }
  }

  #startWaiting(): void {
    while (this.#waiting.length > 0 && this.#taken < Math.floor(this.#slots)) {
      const urgent = this.#waiting.findIndex(({ question }) => question.urgent);
      const [next] = this.#waiting.splice(Math.max(0, urgent), 1);
      this.#taken += 1;
      next?.start();
    }
  }
}
