import type { Logger } from "pino";
import type { SignedPayment } from "../../x402/methods/method.ts";
import { isSigned } from "./method.ts";
import { voucherOf } from "./payload.ts";
import type { ChannelRow } from "./store/row.ts";

/**
 * Finds vouchers that were lost. A payer adds each price to the sum of the previous voucher. So a signed voucher that is higher
 * than the channel's next voucher shows that the store has lost vouchers, such as after a restore.
 */
export class LostVouchers {
  readonly #logger: Logger;
  readonly #alerted = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Logs an error, once for each channel, if a payment shows that vouchers of its channel were lost. */
  async look(row: ChannelRow, payment: Pick<SignedPayment, "payload" | "details">): Promise<void> {
    const { channel_id: channel, network, signed: known } = row;
    const voucher = voucherOf(payment);
    const price = namedPrice(payment);
    if (price === undefined || voucher.cumulative <= BigInt(known) + price) return;
    if (this.#alerted.has(channel) || !(await isSigned(voucher, network))) return;
    this.#alerted.add(channel);
    const signed = String(voucher.cumulative - price);
    this.#logger.error(
      { channel, known, signed },
      "vouchers of a channel were lost: its payer has signed more than the store knows",
    );
  }
}

/** Returns the price of a call that its payer has accepted; undefined if the payment names no price. */
export function namedPrice({ payload }: Pick<SignedPayment, "payload">): bigint | undefined {
  const { amount } = (payload as { readonly accepted?: { readonly amount?: unknown } }).accepted ?? {};
  return typeof amount === "string" && /^[0-9]{1,39}$/.test(amount) ? BigInt(amount) : undefined;
}
