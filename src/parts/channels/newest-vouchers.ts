import { boundedCache } from "../../core/bounded-cache.ts";
import type { ChannelRow } from "./store/row.ts";
import { standing } from "./store/rules.ts";

const MAX_CHANNELS = 100_000;

/** Sums of a channel that this process knows, token units. */
interface Known {
  /** Highest voucher that may have been accepted. */
  readonly highest: bigint;
  /** Highest voucher that the deposits cover, until calls are charged back. */
  readonly covered: bigint;
}

/**
 * The highest voucher of each channel that may have been accepted. Only a process that uses its store alone keeps these
 * vouchers. A higher voucher was never accepted, so the row of its channel need not be read before the write that accepts the
 * voucher.
 */
export class NewestVouchers {
  readonly #known = boundedCache<string, Known>(MAX_CHANNELS);
  /**
   * Number of purchases in progress, by channel, of channels whose sums are not known or are about to change by a
   * deposit.
   */
  readonly #open = new Map<string, number>();
  #changes = 0;

  /** Version that changes whenever a row that was read earlier may lack a purchase. */
  get version(): number {
    return this.#changes;
  }

  /**
   * Reports whether a voucher is the next after the highest voucher. @param price price of its call that the payer has accepted
   */
  isNext(channelId: string, cumulative: bigint, price: bigint): boolean {
    const known = this.#known.get(channelId);
    if (known === undefined || cumulative > known.covered) return false;
    return known.highest < cumulative && cumulative <= known.highest + price;
  }

  /** Records a channel that was read. @param version version before the read */
  note(row: ChannelRow, version: number): void {
    const { channel_id: channelId, signed, base, balance, deposits } = row;
    if (deposits > 0 || version !== this.#changes || this.#open.has(channelId)) return;
    const { highest = BigInt(signed) } = this.#known.get(channelId) ?? {};
    this.#known.set(channelId, { highest, covered: BigInt(base) + BigInt(balance) - standing(row) });
  }

  /**
   * Records a voucher that may be accepted from now on. The sums of a channel lack a deposit for some time after the deposit
   * was made.
   * @returns a function to call once the purchase has ended; undefined if there is nothing to do then
   */
  begin(channelId: string, cumulative: bigint, hasDeposit: boolean): (() => void) | undefined {
    const known = this.#known.get(channelId);
    if (known !== undefined && !hasDeposit) {
      if (known.highest < cumulative) this.#known.set(channelId, { ...known, highest: cumulative });
      return undefined;
    }
    this.#known.delete(channelId);
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
