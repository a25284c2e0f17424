import { boundedCache } from "../../core/bounded-cache.ts";
import type { ChannelRow } from "./store/row.ts";

const MAX_CHANNELS = 100_000;

/**
 * The highest voucher of each channel that may have been taken, as far as it is known to the one process that owns the store. A voucher
 * above it was never taken, and the row of its channel need not be read before the write that takes it.
 */
export class NewestVouchers {
  readonly #highest = boundedCache<string, bigint>(MAX_CHANNELS);
  /** Purchases in progress by channel that may change more than the highest voucher that is known. */
  readonly #open = new Map<string, number>();
  #changes = 0;

  /** Changes whenever a row that was read before may lack a purchase. */
  get version(): number {
    return this.#changes;
  }

  /** Reports whether a voucher is the next one after the highest. @param price of its call, as its payer names it */
  isNext(channelId: string, cumulative: bigint, price: bigint): boolean {
    const highest = this.#highest.get(channelId);
    return highest !== undefined && highest < cumulative && cumulative <= highest + price;
  }

  /** Notes a channel that was read. @param version that of before */
  note({ channel_id: channelId, signed, deposits }: ChannelRow, version: number): void {
    if (deposits > 0 || version !== this.#changes || this.#open.has(channelId)) return;
    if (!this.#highest.has(channelId)) this.#highest.set(channelId, BigInt(signed));
  }

  /**
   * Notes a voucher that may be taken from now on. The sums of a channel lack a deposit for some time after the deposit was made.
   * @returns a function to call once the purchase has ended; undefined if there is nothing to do then
   */
  begin(channelId: string, cumulative: bigint, hasDeposit: boolean): (() => void) | undefined {
    const highest = this.#highest.get(channelId);
    if (highest !== undefined && !hasDeposit) {
      if (highest < cumulative) this.#highest.set(channelId, cumulative);
      return undefined;
    }
    this.#highest.delete(channelId);
    this.#changes += 1;
    this.#open.set(channelId, (this.#open.get(channelId) ?? 0) + 1);
    return () => {
      this.#changes += 1;
      const left = (this.#open.get(channelId) ?? 0) - 1;
      if (left > 0) this.#open.set(channelId, left);
      else this.#open.delete(channelId);
    };
  }
}
