import { GatewayError } from "../../core/errors.ts";
import type { PaymentReader, SignedPayment } from "../../x402/methods/method.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { readMessagePayment } from "../../x402/protocols/message-request.ts";
import type { MessageProtocol, Meta } from "../../x402/protocols/protocol.ts";

const X402 = "x402/payment";

/** The payment of a tool call in its `_meta`: over x402, or over another protocol of messages. */
export class ToolPayment implements PaymentReader {
  readonly #meta: Meta;
  readonly #methods: Methods;
  /** Protocol of the payment, if it is another protocol than x402. */
  readonly protocol: MessageProtocol | undefined;
  /** The body is in the message. */
  readonly bindsBody = true;

  constructor(meta: Meta, protocol: MessageProtocol | undefined, methods: Methods) {
    this.#meta = meta;
    this.#methods = methods;
    this.protocol = protocol?.carriesPayment(meta) ? protocol : undefined;
  }

  carriesPayment(): boolean {
    return this.protocol !== undefined || this.#meta[X402] !== undefined;
  }

  readPayment(): SignedPayment | undefined {
    const paid = this.#meta[X402];
    if (this.protocol === undefined)
      return paid === undefined ? undefined : readMessagePayment(paid, `_meta["${X402}"]`, this.#methods);
    if (paid !== undefined)
      throw new GatewayError(
        "invalid_payment",
        `_meta holds an x402 payment and ${this.protocol.payment}: send one of them. Nothing was charged.`,
      );
    return this.protocol.readPayment(this.#meta);
  }
}
