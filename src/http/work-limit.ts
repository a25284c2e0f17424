import { rateLimited } from "./rate-limit.ts";

/** Bounds of work in progress. */
export interface WorkBounds {
  readonly perClient: number;
  readonly total: number;
  /** Start of the message of a refusal. */
  readonly reason: string;
}

/** Counts work in progress, for each client and in all. The bounds come with each piece, so a reload can change them. */
export class WorkLimit {
  readonly #byClient = new Map<string, number>();
  #total = 0;

  /** Does the work if the client and all clients together have room for one more piece. @throws GatewayError `rate_limited` */
  async run<Result>(client: string, bounds: WorkBounds, work: () => Promise<Result>): Promise<Result> {
    const ofClient = this.#byClient.get(client) ?? 0;
    if (ofClient >= bounds.perClient || this.#total >= bounds.total) throw rateLimited(bounds.reason, 1_000);
    this.#byClient.set(client, ofClient + 1);
    this.#total++;
    try {
      return await work();
    } finally {
      this.#total--;
      const left = (this.#byClient.get(client) ?? 1) - 1;
      if (left === 0) this.#byClient.delete(client);
      else this.#byClient.set(client, left);
    }
  }
}
