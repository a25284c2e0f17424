import { hash } from "node:crypto";
import { chainIdOf } from "../../chain/chain-client.ts";
import { recoverAddress } from "../../chain/recover-address.ts";
import { EIP3009 } from "../../core/payment.ts";
import type { Method } from "../../x402/methods/method.ts";
import { correction } from "./correction.ts";
import { authorizationOf, movesInto } from "./deposit.ts";
import { channelIdOf, voucherDigest } from "./hashes.ts";
import { isSent, OWN_SCHEME, readSettlable } from "./own-scheme.ts";
import { journalledVoucher, payload, type Voucher, voucherOf } from "./payload.ts";
import { BAD_SIGNATURE, LOW_DEPOSIT } from "./store/refusal-texts.ts";
import { CHANNEL_METHOD } from "./store/row.ts";

/** Returns the digest of the request that a payment is bound to. @param nonce of the payment */
export function requestIn(nonce: string): string {
  return nonce.slice(-REQUEST_DIGITS);
}

const NO_ACCOUNT = `0x${"0".repeat(40)}`;
/** Number of digits of a request's digest in the nonces of payments. */
const REQUEST_DIGITS = 32;

/**
 * Payment channels: a payer deposits once, and signs a voucher for each call. The store compares the voucher with the sums of
 * its channel in the write that begins the payment. This write completes the payment, because only a deposit moves money on the
 * chain.
 */
export const CHANNELS: Method = {
  name: CHANNEL_METHOD,
  title: "payment channel",
  extensions: {},
  owns: (payload) => "channelConfig" in payload || isSent(payload),
  payload: {
    schema: payload,
    kind: "a voucher of a payment channel, or a deposit by EIP-3009 or Permit2 with one",
  },
  compared: "receiver, token, authorizer, withdrawal delay, deposit",
  pays(payment, { token, amount, extra }) {
    const voucher = voucherOf(payment);
    const { config, cumulative, deposit } = voucher;
    const transferMethod = extra?.assetTransferMethod ?? EIP3009.name;
    return (
      config.receiver === token.payTo.toLowerCase() &&
      config.token === token.asset.toLowerCase() &&
      config.receiverAuthorizer === String(extra?.receiverAuthorizer).toLowerCase() &&
      config.withdrawDelay === extra?.withdrawDelay &&
      cumulative >= BigInt(amount) &&
      (deposit === undefined || movesInto({ ...voucher, deposit }, transferMethod))
    );
  },
  // Adds no field. The method exists so that an offer is made for each 402, and only while a facilitator lists the scheme.
  fresh: { keys: [], make: async () => ({}) },
  async recoverSigner(payment, { network }) {
    const voucher = voucherOf(payment);
    return (await isSigned(voucher, network)) ? voucher.config.payer : undefined;
  },

  /**
   * Payers who send several requests at once sign the same voucher for each, so the request is needed to tell these payments
   * apart.
   */
  bind(payment, request) {
    const digest = hash("sha256", request).slice(0, REQUEST_DIGITS);
    const fingerprint = hash("sha256", `${payment.fingerprint}:${digest}`);
    return { ...payment, nonce: `${payment.nonce}:${digest}`, fingerprint };
  },
  isEndless: (payment) => voucherOf(payment).deposit === undefined,
  async check(payment, { token, amount, extra }) {
    const voucher = voucherOf(payment);
    // A contract must not sign vouchers, because it could revoke its signature.
    if (voucher.config.payerAuthorizer === NO_ACCOUNT)
      return { invalid: "The channel has no payerAuthorizer: open one whose vouchers a key signs" };
    if (!(await isSigned(voucher, token.network))) return { invalid: BAD_SIGNATURE };
    if (voucher.deposit !== undefined && voucher.deposit.amount < BigInt(String(extra?.minDeposit ?? 0)))
      return { invalid: LOW_DEPOSIT };
    return voucher.deposit === undefined ? { settlement: settlementOf(voucher, amount) } : "unpaid";
  },
  evidenceOf: (intent) =>
    journalledVoucher(intent).deposit === undefined ? { kind: "paid", transaction: "" } : undefined,
  authorizationOf(payment, methods) {
    const { channelId, deposit } = journalledVoucher(payment);
    return deposit && authorizationOf({ channelId, deposit }, payment, methods);
  },
  readSettlable,
  ownScheme: OWN_SCHEME,
  notTaken: (reason) => correction(JSON.parse(reason)),
  settlementOf: (intent) => settlementOf(journalledVoucher(intent), intent.amount),
};

/** @param amount of the call */
function settlementOf({ channelId, cumulative, deposit }: Voucher, amount: string): object {
  const channelState = { channelId, chargedCumulativeAmount: String(cumulative) };
  return { amount: String(deposit?.amount ?? ""), extra: { channelState, chargedAmount: amount } };
}

/** Half the order of secp256k1, the highest `s` of a signature that contracts take. */
const HIGHEST_S = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

/** Reports whether a signature has the only form that contracts accept: a low `s`, and 27 or 28 at the end. */
function isCanonical(signature: string): boolean {
  return /^0x[0-9a-f]{128}(1b|1c)$/.test(signature) && BigInt(`0x${signature.slice(66, 130)}`) <= HIGHEST_S;
}

/** Checks that a voucher belongs to its channel, and that the channel's key signed it in a form that can be claimed. */
export async function isSigned(voucher: Omit<Voucher, "deposit">, network: string): Promise<boolean> {
  const { config, channelId, cumulative, signature } = voucher;
  const chainId = chainIdOf(network);
  if (!isCanonical(signature) || channelIdOf(chainId, config) !== channelId) return false;
  const hash = voucherDigest(chainId, channelId, cumulative);
  const signer = await recoverAddress({ hash, signature }).catch(() => undefined);
  return signer === config.payerAuthorizer;
}
