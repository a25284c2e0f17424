/** @import { Requirements } from "../../../page/tools/chains.ts" */
/** @import { Option } from "./data.js" */
import { chainIdOf } from "./evm-networks.js";
import { randomHex } from "./payment.js";

/** Seconds by which a payer's authorization begins early, as in the official clients. */
const EARLY_SECS = 600;

/** Address of Permit2 on every chain. It moves tokens of payers who have approved it. */
export const PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
/** Address of x402's proxy. Permit2 lets it move tokens, and it pays only the recipient that the payer signed. */
const PERMIT2_PROXY = "0x402085c248EeA27D92E8b30b2C58ed07f9E20001";

/** @param {string} name @param {string} type */
const field = (name, type) => ({ name, type });

/** Reports whether an offer or an option is paid by Permit2. @param {Requirements | Option} offer */
export function isPermit2(offer) {
  return ("extra" in offer ? offer.extra.assetTransferMethod : offer.transfer_method) === "permit2";
}

/**
 * Returns the payment of an offer: the fields of its payload, and the typed data that the wallet signs.
 * @param {Requirements} offer
 * @param {string} payer
 * @param {number} nowSecs by the gateway's clock, because the buyer's clock may be wrong
 */
export function paymentFor(offer, payer, nowSecs) {
  return isPermit2(offer) ? permitFor(offer, payer, nowSecs) : authorizationFor(offer, payer, nowSecs);
}

/** A payment by EIP-3009. @param {Requirements} offer @param {string} payer @param {number} nowSecs */
function authorizationFor({ asset, extra, network, payTo, amount, maxTimeoutSeconds }, payer, nowSecs) {
  const authorization = {
    from: payer,
    to: payTo,
    value: amount,
    validAfter: String(nowSecs - EARLY_SECS),
    validBefore: String(nowSecs + maxTimeoutSeconds),
    nonce: `0x${randomHex(32)}`,
  };
  const { name, version } = extra;
  const typedData = {
    domain: { name, version, chainId: chainIdOf(network), verifyingContract: asset },
    primaryType: "TransferWithAuthorization",
    types: {
      EIP712Domain: [
        field("name", "string"),
        field("version", "string"),
        field("chainId", "uint256"),
        field("verifyingContract", "address"),
      ],
      TransferWithAuthorization: [
        field("from", "address"),
        field("to", "address"),
        field("value", "uint256"),
        field("validAfter", "uint256"),
        field("validBefore", "uint256"),
        field("nonce", "bytes32"),
      ],
    },
    message: authorization,
  };
  return { payload: { authorization }, typedData };
}

/** A payment by Permit2. @param {Requirements} offer @param {string} payer @param {number} nowSecs */
function permitFor({ asset, network, payTo, amount, maxTimeoutSeconds }, payer, nowSecs) {
  const message = {
    permitted: { token: asset, amount },
    spender: PERMIT2_PROXY,
    nonce: String(BigInt(`0x${randomHex(32)}`)),
    deadline: String(nowSecs + maxTimeoutSeconds),
    witness: { to: payTo, validAfter: String(nowSecs - EARLY_SECS) },
  };
  const typedData = {
    domain: { name: "Permit2", chainId: chainIdOf(network), verifyingContract: PERMIT2 },
    primaryType: "PermitWitnessTransferFrom",
    types: {
      EIP712Domain: [
        field("name", "string"),
        field("chainId", "uint256"),
        field("verifyingContract", "address"),
      ],
      PermitWitnessTransferFrom: [
        field("permitted", "TokenPermissions"),
        field("spender", "address"),
        field("nonce", "uint256"),
        field("deadline", "uint256"),
        field("witness", "Witness"),
      ],
      TokenPermissions: [field("token", "address"), field("amount", "uint256")],
      Witness: [field("to", "address"), field("validAfter", "uint256")],
    },
    message,
  };
  return { payload: { permit2Authorization: { from: payer, ...message } }, typedData };
}
