import type { ChannelLedger } from "./store/ledger.ts";

/** Charges that one round counts. */
const PAGE = 500;

/** Adds the outcomes of charges to the sums of their channels. */
export class ChargeCounter {
  readonly #ledger: Pick<ChannelLedger, "listUncounted" | "countCharges">;
  readonly #limit: number;
  /** Charge after which the next page begins; undefined for the first page. */
  #after: { readonly channelId: string; readonly callId: number } | undefined;

  constructor(ledger: Pick<ChannelLedger, "listUncounted" | "countCharges">, limit = PAGE) {
    this.#ledger = ledger;
    this.#limit = limit;
  }

  /** Counts charges of one channel. */
  async count(channelId: string): Promise<void> {
    for (const { channelId: id, ...charges } of await this.#ledger.listUncounted({
      channelId,
      limit: this.#limit,
    }))
      await this.#ledger.countCharges(id, charges);
  }

  /** Counts the next charges of all channels. Each channel has its turn, even while the charges of others cannot be counted. */
  async countNext(): Promise<void> {
    const listed = await this.#ledger.listUncounted({ after: this.#after, limit: this.#limit });
    for (const { channelId, ...charges } of listed) await this.#ledger.countCharges(channelId, charges);
    const last = listed.at(-1);
    const isFull = listed.reduce((sum, { callIds }) => sum + callIds.length, 0) >= this.#limit;
    this.#after =
      isFull && last !== undefined
        ? { channelId: last.channelId, callId: Math.max(...last.callIds) }
        : undefined;
  }
}
