import type { PaymentIntent } from "../../../core/payment.ts";
import type { NewVoucher } from "./rules.ts";

/** The fields of a payload that the store reads. */
interface Payload {
  readonly channelConfig: object;
  readonly voucher: {
    readonly channelId: string;
    readonly maxClaimableAmount: string;
    readonly signature: string;
  };
  readonly deposit?: { readonly amount: string };
}

/** Parsed vouchers of payments that begin, because the keys, the gate and the reaction of a step each need the voucher. */
const vouchers = new WeakMap<PaymentIntent, NewVoucher>();

/** Reads the voucher of a payment. The payload was checked before. */
export function voucherOf(intent: PaymentIntent): NewVoucher {
  let voucher = vouchers.get(intent);
  if (voucher === undefined) {
    voucher = readVoucher(intent);
    vouchers.set(intent, voucher);
  }
  return voucher;
}

function readVoucher({ payload, key, symbol, decimals, amount }: PaymentIntent): NewVoucher {
  const { channelConfig, voucher, deposit } = (JSON.parse(payload) as { readonly payload: Payload }).payload;
  return {
    channelId: voucher.channelId.toLowerCase(),
    network: key.network,
    asset: key.asset,
    symbol,
    decimals,
    config: JSON.stringify(channelConfig),
    cumulative: BigInt(voucher.maxClaimableAmount),
    signature: voucher.signature.toLowerCase(),
    amount: BigInt(amount),
    deposit: BigInt(deposit?.amount ?? 0),
  };
}
