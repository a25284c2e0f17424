import type { ErrorCode, GatewayError } from "../../core/errors.ts";
import type { PaymentReader, SignedPayment } from "../../x402/methods/method.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { RPC, RpcError } from "../../x402/protocols/json-rpc.ts";
import { readMessagePayment } from "../../x402/protocols/message-request.ts";
import type { Meta } from "../../x402/protocols/protocol.ts";

/** URIs of the extension for payments over x402. */
export const EXTENSIONS = {
  v02: "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2",
  v01: "https://github.com/google-a2a/a2a-x402/v0.1",
};

/** Names of the extension's fields in the metadata of messages. */
export const X402 = {
  status: "x402.payment.status",
  required: "x402.payment.required",
  payload: "x402.payment.payload",
  receipts: "x402.payment.receipts",
  error: "x402.payment.error",
};

/** Stage of a payment, as the extension names it. */
export type PaymentStatus =
  | "payment-required"
  | "payment-rejected"
  | "payment-submitted"
  | "payment-verified"
  | "payment-completed"
  | "payment-failed";

/** The payment in the metadata of a message. */
export class TaskPayment implements PaymentReader {
  readonly #meta: Meta;
  readonly #methods: Methods;
  /** The body is in the message. */
  readonly bindsBody = true;

  constructor(meta: Meta, methods: Methods) {
    this.#meta = meta;
    this.#methods = methods;
  }

  /** The client does not want to pay. */
  get isRejected(): boolean {
    return this.#meta[X402.status] === "payment-rejected";
  }

  /** @throws RpcError if the status says that the message has no payment */
  requireStatus(): void {
    const { [X402.status]: status, [X402.payload]: payload } = this.#meta;
    const expected: PaymentStatus = "payment-submitted";
    if (payload === undefined || this.isRejected || status === undefined || status === expected) return;
    throw new RpcError(
      RPC.invalidParams,
      `message.metadata["${X402.status}"] is ${JSON.stringify(status).slice(0, 100)}; expected "${expected}" with a payment. Nothing was charged.`,
    );
  }

  carriesPayment(): boolean {
    return this.#meta[X402.payload] !== undefined;
  }

  readPayment(): SignedPayment | undefined {
    const { [X402.payload]: payload } = this.#meta;
    if (payload === undefined) return undefined;
    return readMessagePayment(payload, `metadata["${X402.payload}"]`, this.#methods);
  }
}

/** Codes that the extension has for refusals. */
const CODES: { readonly [Code in ErrorCode]?: string } = {
  settlement_failed: "SETTLEMENT_FAILED",
  payment_replay: "DUPLICATE_NONCE",
  authorization_used: "DUPLICATE_NONCE",
};

/**
 * Returns the short code of a refusal. It is the extension's code if the extension has a code for the refusal, or else
 * jobgate's code.
 */
export function errorCodeOf({ code, message }: Pick<GatewayError, "code" | "message">): string {
  if (/insufficient_(funds|balance)/.test(message)) return "INSUFFICIENT_FUNDS";
  return CODES[code] ?? code;
}
