import pLimit, { type LimitFunction } from "p-limit";
import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { contractApproves } from "../../chain/contract-signature.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import type { Telemetry } from "../../core/telemetry.ts";

/** Questions that one RPC is asked at once: anyone can cause one, and payments need the RPC too. */
const MAX_CALLS_PER_RPC = 4;
/** Questions that may wait for one RPC. */
const MAX_WAITING_PER_RPC = 32;

interface NetworkRpc {
  readonly rpcUrl: string;
  readonly client: ChainClient;
  readonly limit: LimitFunction;
}

/** Asks the accounts that are contracts about signatures (ERC-1271), each on its own network. */
export class AccountContracts {
  readonly #timeoutMs: number;
  readonly #telemetry: Telemetry;
  /** Keyed by CAIP-2 network. */
  #rpcs: ReadonlyMap<string, NetworkRpc> = new Map();

  constructor(parts: { readonly timeoutMs: number; readonly telemetry: Telemetry }) {
    this.#timeoutMs = parts.timeoutMs;
    this.#telemetry = parts.telemetry;
  }

  /** Uses the RPCs of these tokens from now on. */
  watch(tokens: readonly Pick<AcceptedToken, "network" | "rpcUrl">[]): void {
    const rpcs = new Map<string, NetworkRpc>();
    for (const { network, rpcUrl } of tokens) {
      if (rpcUrl === undefined || rpcs.has(network)) continue;
      const known = this.#rpcs.get(network);
      rpcs.set(network, known?.rpcUrl === rpcUrl ? known : this.#connect(network, rpcUrl));
    }
    this.#rpcs = rpcs;
  }

  /**
   * Returns false too where no RPC is configured for the network.
   * @throws GatewayError `permission_check_failed` when the chain gives no answer
   */
  async approve(
    network: string,
    { account, hash, signature }: Readonly<Record<"account" | "hash" | "signature", `0x${string}`>>,
  ): Promise<boolean> {
    const rpc = this.#rpcs.get(network);
    if (rpc === undefined) return false;
    if (rpc.limit.pendingCount >= MAX_WAITING_PER_RPC) throw silent();
    try {
      return await rpc.limit(async () =>
        contractApproves(await rpc.client.connect(), { account, hash, signature }),
      );
    } catch (cause) {
      throw silent(cause);
    }
  }

  #connect(network: string, rpcUrl: string): NetworkRpc {
    const observer = { telemetry: this.#telemetry, purpose: "permission" } as const;
    const chainId = chainIdOf(network);
    const client = new ChainClient({ rpcUrl, timeoutMs: this.#timeoutMs, observer, chainId });
    return { rpcUrl, client, limit: pLimit(MAX_CALLS_PER_RPC) };
  }
}

function silent(cause?: unknown): GatewayError {
  return new GatewayError(
    "permission_check_failed",
    "The chain could not show whether the account's contract approves the signature: sign a new challenge.",
    { cause, headers: { "retry-after": "2" } },
  );
}
