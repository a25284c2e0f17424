import type { GatewayError } from "../../core/errors.ts";
import { Correction } from "../../x402/purchase/refused-payments.ts";
import { CHANNEL_METHOD } from "./store/row.ts";
import type { ChannelRefusal } from "./store/rules.ts";

/**
 * Makes the 402 for a voucher that its channel refuses. The offers have the sums of the channel and, as proof, the payer's last
 * voucher. x402 clients sign the next voucher from these sums.
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
