/** @import { Requirements } from "../../../page/tools/chains.ts" */
/** @import { PaymentRequired } from "./data.js" */

const IDENTIFIER = "payment-identifier";

/** Decodes a header that is JSON in base64. @param {string | null} header */
export function decodeHeader(header) {
  const bytes = Uint8Array.from(atob(header ?? ""), (char) => char.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

/** Encodes bytes as base64. @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let text = "";
  // The number of arguments of a call is limited.
  for (let i = 0; i < bytes.length; i += 8_192) text += String.fromCharCode(...bytes.subarray(i, i + 8_192));
  return btoa(text);
}

/** Returns new random bytes as hex. @param {number} length */
export function randomHex(length) {
  const bytes = crypto.getRandomValues(new Uint8Array(length));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns a new id of a purchase, which all payments for the purchase share. */
export function newIdentifier() {
  return `pay_${randomHex(16)}`;
}

/**
 * Returns the `PAYMENT-SIGNATURE` header. It repeats the extensions of the 402, as clients must, and adds the purchase's id.
 * @param {PaymentRequired} required
 * @param {object} payment
 * @param {Requirements} payment.accepted
 * @param {object} payment.payload
 * @param {string} payment.identifier
 */
export function paymentHeader({ resource, extensions }, { accepted, payload, identifier }) {
  const declared = extensions?.[IDENTIFIER];
  const echoed = declared && {
    ...extensions,
    [IDENTIFIER]: { ...declared, info: { ...declared.info, id: identifier } },
  };
  const payment = {
    x402Version: 2,
    payload,
    resource,
    accepted,
    extensions: echoed ?? extensions,
  };
  return toBase64(new TextEncoder().encode(JSON.stringify(payment)));
}
