import type { PaymentIntent } from "../../core/payment.ts";
import type { Methods } from "../methods/methods.ts";
import type { ChainEvidence } from "./chain-evidence.ts";

interface Parts {
  readonly methods: Methods;
  readonly evidence: Pick<ChainEvidence, "connect">;
}

/** Funds of the payers whose payments are charged after their jobs. Before the charge, only the chain shows them. */
export class PayerFunds {
  readonly #methods: Methods;
  readonly #evidence: Parts["evidence"];

  constructor({ methods, evidence }: Parts) {
    this.#methods = methods;
    this.#evidence = evidence;
  }

  /**
   * Reads the amount that the payer of a payment could pay now. Never rejects.
   * @returns token units; undefined when the chain cannot be read
   */
  async find(
    payment: Pick<PaymentIntent, "key" | "transferMethod" | "payload">,
  ): Promise<bigint | undefined> {
    try {
      const rpc = await this.#evidence.connect(payment.key);
      return rpc && (await this.#methods.find(payment.transferMethod)?.funds?.read(rpc, payment));
    } catch {
      return undefined;
    }
  }

  /**
   * Checks whether a payment could be charged its whole amount now. Never rejects.
   * @returns the reason why not; undefined if the payment could be charged, or if the chain cannot be read
   */
  async findShortfall(payment: PaymentIntent): Promise<string | undefined> {
    try {
      const rpc = await this.#evidence.connect(payment.key);
      return rpc && (await this.#methods.find(payment.transferMethod)?.funds?.findShortfall(rpc, payment));
    } catch {
      return undefined;
    }
  }
}
