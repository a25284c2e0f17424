import pLimit, { type LimitFunction } from "p-limit";
import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import { contractApproves } from "../../chain/contract-signature.ts";
import type { AcceptedToken } from "../../config/config.ts";
import { GatewayError } from "../../core/errors.ts";
import type { Telemetry } from "../../core/telemetry.ts";

/** Most concurrent calls to one RPC, because anyone can cause a call, and payments need the RPC too. */
const MAX_CALLS_PER_RPC = 4;
/** Most calls that wait for one RPC. */
const MAX_WAITING_PER_RPC = 32;

interface NetworkRpc {
  readonly rpcUrl: string;
  readonly client: ChainClient;
  readonly limit: LimitFunction;
}

/** Checks signatures by calling the accounts that are contracts (ERC-1271), each on its own network. */
export class AccountContracts {
  readonly #timeoutMs: number;
  readonly #telemetry: Telemetry;
  /** Keyed by CAIP-2 network. */
  #rpcs: ReadonlyMap<string, NetworkRpc> = new Map();

  constructor(parts: { readonly timeoutMs: number; readonly telemetry: Telemetry }) {
    this.#timeoutMs = parts.timeoutMs;
    this.#telemetry = parts.telemetry;
  }

  /** Replaces the RPCs by the RPCs of these tokens. */
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
   * Reports whether the account's contract approves a signature. Without an RPC for the network, the result is false.
   * @throws GatewayError `permission_check_failed` if the RPC does not respond
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
