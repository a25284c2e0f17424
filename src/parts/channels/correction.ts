import type { GatewayError } from "../../core/errors.ts";
import { Correction } from "../../x402/purchase/refused-payments.ts";
import { CHANNEL_METHOD } from "./store/row.ts";
import type { ChannelRefusal } from "./store/rules.ts";

/**
 * Makes the 402 of a voucher that its channel does not take. Its offers have the sums of the channel, and the payer's own last
 * voucher as the proof of them, from which x402's clients sign again.
 */
export function correction({ error, channel }: ChannelRefusal): GatewayError {
  return new Correction(error, (offer) =>
    channel === undefined || offer.token.transferMethod !== CHANNEL_METHOD
      ? offer
      : { ...offer, extra: { ...offer.extra, ...stateOf(channel) } },
  );
}

function stateOf(channel: NonNullable<ChannelRefusal["channel"]>) {
  const { channelId, base, balance, claimed, signed, signature } = channel;
  return {
    channelState: { channelId, balance, totalClaimed: claimed, chargedCumulativeAmount: base },
    voucherState: { signedMaxClaimable: signed, signature },
  };
}
