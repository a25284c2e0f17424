import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import type { X402Config } from "../../config/config.ts";
import type { PaymentIntent, PaymentKey } from "../../core/payment.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Methods } from "../methods/methods.ts";

type Config = Pick<X402Config, "acceptedTokens">;

interface Parts {
  readonly methods: Methods;
  readonly config: Config;
  /** For one RPC call. */
  readonly rpcTimeoutMs: number;
  readonly telemetry: Telemetry;
}

/** Funds of the payers whose payments are charged after their jobs. Nothing but the chain knows them before the charge. */
export class PayerFunds {
  readonly #methods: Methods;
  readonly #rpcTimeoutMs: number;
  readonly #telemetry: Telemetry;
  /** Keyed by network and asset. */
  readonly #clients = new Map<string, ChainClient>();

  constructor({ methods, config, rpcTimeoutMs, telemetry }: Parts) {
    this.#methods = methods;
    this.#rpcTimeoutMs = rpcTimeoutMs;
    this.#telemetry = telemetry;
    this.watch(config);
  }

  /** Adds a reloaded configuration's tokens. Removed tokens stay: payments in them may be open. */
  watch({ acceptedTokens }: Config): void {
    for (const { network, asset, rpcUrl } of acceptedTokens) {
      if (rpcUrl === undefined) continue;
      const client = new ChainClient({
        rpcUrl,
        chainId: chainIdOf(network),
        timeoutMs: this.#rpcTimeoutMs,
        observer: { telemetry: this.#telemetry, purpose: "evidence" },
      });
      this.#clients.set(clientKey({ network, asset }), client);
    }
  }

  /**
   * Reads what the payer of a payment could pay now. Never throws.
   * @returns token units; undefined when the chain cannot be read
   */
  async find(
    payment: Pick<PaymentIntent, "key" | "transferMethod" | "payload">,
  ): Promise<bigint | undefined> {
    try {
      const rpc = await this.#clients.get(clientKey(payment.key))?.connect();
      return rpc && (await this.#methods.find(payment.transferMethod)?.funds.read(rpc, payment));
    } catch {
      return undefined;
    }
  }

  /**
   * Checks whether a payment could be charged its whole amount now. Never throws.
   * @returns why not; undefined when it could, or the chain cannot be read
   */
  async findShortfall(payment: PaymentIntent): Promise<string | undefined> {
    try {
      const rpc = await this.#clients.get(clientKey(payment.key))?.connect();
      return rpc && (await this.#methods.find(payment.transferMethod)?.funds.findShortfall(rpc, payment));
    } catch {
      return undefined;
    }
  }
}

function clientKey({ network, asset }: Pick<PaymentKey, "network" | "asset">): string {
  return `${network}/${asset.toLowerCase()}`;
}
