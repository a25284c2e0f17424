import type { GatewayError } from "../../core/errors.ts";
import { isNestedDeeper, isObject } from "../../core/objects.ts";
import type { SignedPayment } from "../../x402/methods/method.ts";
import type { Asked, MessageError, MessageProtocol, Meta } from "../../x402/protocols/protocol.ts";
import type { SettlementSummary } from "../../x402/purchase/checkout.ts";
import { chargedNothing } from "../../x402/purchase/job-route.ts";
import { PaymentRefusal } from "../../x402/purchase/refused-payments.ts";
import { type Challenge, canonical } from "./challenges.ts";
import { parseCredential } from "./credential.ts";
import { EVM } from "./methods.ts";
import { type MppProtocol, problemOf } from "./mpp-protocol.ts";

const CREDENTIAL = "org.paymentauth/credential";
const PAYMENT_REQUIRED = "org.paymentauth/payment-required";
const RECEIPT = "org.paymentauth/receipt";
const MAX_NESTING = 32;

/** Error codes of JSON-RPC and MPP. */
const CODES = { invalidParams: -32602, paymentRequired: -32042, paymentRefused: -32043 };

/** MPP in JSON-RPC messages: credential, challenges and receipt in `_meta`. */
export class MppMessages implements MessageProtocol {
  readonly payment = "an MPP credential";
  readonly methods = { [EVM.name]: { intents: ["charge"] } };
  readonly #mpp: MppProtocol;

  constructor(mpp: MppProtocol) {
    this.#mpp = mpp;
  }

  carriesPayment(meta: Meta): boolean {
    return meta[CREDENTIAL] !== undefined;
  }

  readPayment(meta: Meta): SignedPayment {
    const sent = meta[CREDENTIAL];
    const credential: { readonly challenge?: { readonly request?: unknown } } = isObject(sent) ? sent : {};
    const request = credential.challenge?.request;
    // Over JSON-RPC a challenge holds its request as plain JSON.
    const challenge =
      typeof request === "object" && !isNestedDeeper(request, MAX_NESTING)
        ? { ...credential.challenge, request: canonical(request) }
        : credential.challenge;
    return this.#mpp.toPayment(parseCredential({ ...credential, challenge }));
  }

  paymentRequired(asked: Asked, refusal: GatewayError) {
    const data = this.#dataOf(asked, refusal);
    if (data === undefined) return undefined;
    return {
      meta: { [PAYMENT_REQUIRED]: data },
      error: { code: CODES.paymentRequired, message: "Payment Required", data },
    };
  }

  refuse(refusal: GatewayError): MessageError | undefined {
    const { code, message } = refusal;
    const told = { code, ...chargedNothing(code) };
    if (code === "invalid_payment") return { code: CODES.invalidParams, message, data: told };
    if (!(refusal instanceof PaymentRefusal)) return undefined;
    const number = code === "malformed_credential" ? CODES.invalidParams : CODES.paymentRefused;
    return { code: number, message, data: { ...this.#dataOf(refusal, refusal), ...told } };
  }

  acceptedMeta(meta: Meta, summary: SettlementSummary): Meta {
    const { challenge } = (meta[CREDENTIAL] ?? {}) as { readonly challenge?: { readonly id?: unknown } };
    const challengeId = typeof challenge?.id === "string" ? challenge.id : undefined;
    this.#mpp.countAccepted(summary);
    const receipt = this.#mpp.receiptOf(summary);
    return receipt === undefined ? {} : { [RECEIPT]: { ...receipt, challengeId } };
  }

  #dataOf(asked: Asked, refusal: GatewayError): object | undefined {
    const challenges = this.#mpp.challengesFor(asked).map(plainChallenge);
    if (challenges.length === 0) return undefined;
    const problem = {
      type: `https://paymentauth.org/problems/${problemOf(refusal) ?? "verification-failed"}`,
      title: "Payment Required",
      status: 402,
      detail: refusal.message,
    };
    return { httpStatus: 402, challenges, problem };
  }
}

/** Returns a challenge in the form of JSON-RPC. */
function plainChallenge({ request, ...challenge }: Challenge): object {
  return { ...challenge, request: JSON.parse(Buffer.from(request, "base64url").toString()) };
}
