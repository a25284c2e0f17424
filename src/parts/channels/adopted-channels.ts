import type { Logger } from "pino";
import type { AcceptedToken } from "../../config/config.ts";
import { oneSpelling } from "../../core/payment.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import { isSigned } from "./method.ts";
import type { NetworkChannels } from "./network-channels.ts";
import { voucherOf } from "./payload.ts";
import type { ChannelLedger } from "./store/ledger.ts";
import type { ChannelRow } from "./store/row.ts";

/**
 * Returns a function that adds the channel of a payment to the store if its chain has a deposit. Anyone who sees a
 * signed deposit can send it, and then the payment that came with the deposit cannot make that deposit again.
 */
export function channelAdopter(parts: {
  readonly ledger: Pick<ChannelLedger, "adoptChannel">;
  /** @returns undefined for a network without channels */
  readonly readerOf: (network: string) => Pick<NetworkChannels, "read"> | undefined;
  readonly tokens: () => readonly AcceptedToken[];
  readonly logger: Logger;
}): (payment: SignedPayment) => Promise<ChannelRow | undefined> {
  const { ledger, readerOf, tokens, logger } = parts;
  return async (payment) => {
    const { network } = payment;
    const voucher = voucherOf(payment);
    const { channelId: channel_id, config, cumulative, signature } = voucher;
    const asset = config.token;
    const token = tokens().find((one) => one.network === network && oneSpelling(one.asset) === asset);
    // If the chain does not respond, no channel is added, and the facilitator decides about the deposit.
    const chain =
      token &&
      (await readerOf(network)
        ?.read({ channel_id, asset })
        .catch(() => undefined));
    if (token === undefined || chain === undefined || BigInt(chain.balance) === 0n) return undefined;
    if (!(await isSigned(voucher, network))) return undefined;
    const { symbol, decimals } = token;
    const of = { channel_id, network, asset, symbol, decimals, config: JSON.stringify(config) };
    const row = await ledger.adoptChannel({ ...of, signed: String(cumulative), signature }, chain);
    if (row !== undefined)
      logger.warn({ channel: channel_id }, "a channel was adopted: its deposit was sent by another account");
    return row;
  };
}
