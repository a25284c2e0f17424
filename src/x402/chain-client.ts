import { createPublicClient, http, type PublicClient } from "viem";

export interface ChainClientOptions {
  readonly rpcUrl: string;
  /** What the RPC must say that it is; undefined takes it as it is. */
  readonly chainId?: number;
  /** For one call. */
  readonly timeoutMs: number;
}

/** A chain that is asked over one RPC address. */
export interface ChainClient {
  /**
   * The client, once the RPC has shown that it speaks for the right chain. That is asked once, and again after it
   * failed: an RPC for another chain would answer every question wrongly.
   * @throws Error when the RPC cannot be reached or is for another chain
   */
  connect(): Promise<PublicClient>;
}

export function createChainClient({ rpcUrl, chainId, timeoutMs }: ChainClientOptions): ChainClient {
  const client = createPublicClient({ transport: http(rpcUrl, { timeout: timeoutMs, retryCount: 0 }) });
  let checked: Promise<void> | undefined;

  async function checkChain(): Promise<void> {
    const actual = await client.getChainId();
    if (chainId !== undefined && actual !== chainId) {
      throw new Error(`the RPC is for chain ${actual}, expected chain ${chainId}`);
    }
  }

  return {
    async connect() {
      checked ??= checkChain();
      try {
        await checked;
      } catch (error) {
        checked = undefined;
        throw error;
      }
      return client;
    },
  };
}

/** The chain id in a CAIP-2 `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
