import {
  BaseError,
  createPublicClient,
  http,
  type PublicClient,
  RpcRequestError,
  type Transport,
} from "viem";
import { splitCredentials } from "./basic-auth.ts";

export interface RpcClientOptions {
  /** May hold credentials. */
  readonly rpcUrl: string;
  /** For one call. */
  readonly timeoutMs: number;
}

export interface ChainClientOptions extends RpcClientOptions {
  /** What the RPC must say that it is; undefined takes what it says first, and holds it to that. */
  readonly chainId?: number;
}

/** A chain that is asked over one RPC address. */
export interface ChainClient {
  /**
   * The client, once the RPC has shown that it speaks for the right chain. That is asked once, and again after any
   * call got no answer: behind the same address there may be another chain then, which would answer every question
   * wrongly.
   * @throws Error when the RPC cannot be reached or is for another chain
   */
  connect(): Promise<PublicClient>;
}

export function createChainClient({ rpcUrl, chainId, timeoutMs }: ChainClientOptions): ChainClient {
  let expected = chainId;
  let checked: Promise<void> | undefined;
  const forget = () => {
    checked = undefined;
  };
  const client = createRpcClient({ rpcUrl, timeoutMs, onNoAnswer: forget });

  async function checkChain(): Promise<void> {
    const actual = await client.getChainId();
    expected ??= actual;
    if (actual !== expected) throw new Error(`the RPC is for chain ${actual}, expected chain ${expected}`);
  }

  return {
    async connect() {
      checked ??= checkChain();
      try {
        await checked;
      } catch (error) {
        forget();
        throw error;
      }
      return client;
    },
  };
}

/** A client for whatever chain is at an RPC address. It makes no call twice, and goes nowhere else. */
export function createRpcClient({
  rpcUrl,
  timeoutMs,
  onNoAnswer = () => undefined,
}: RpcClientOptions & { readonly onNoAnswer?: () => void }): PublicClient {
  const { url, headers } = splitCredentials(rpcUrl);
  const transport = http(url, {
    retryCount: 0,
    fetchOptions: { headers, redirect: "error" },
    // viem's own time-out ends with the headers of the answer; this one covers its body.
    timeout: 0,
    fetchFn: (input, init) => fetch(input, { ...init, signal: AbortSignal.timeout(timeoutMs) }),
  });
  return createPublicClient({
    transport: reportingNoAnswer(transport, onNoAnswer),
    // A contract could otherwise have jobgate fetch any URL (EIP-3668).
    ccipRead: false,
  });
}

function reportingNoAnswer(transport: Transport, onNoAnswer: () => void): Transport {
  return (parameters) => {
    const opened = transport(parameters);
    const request = async (...args: Parameters<typeof opened.request>) => {
      try {
        return await opened.request(...args);
      } catch (error) {
        if (!isAnswer(error)) onNoAnswer();
        throw error;
      }
    };
    return { ...opened, request: request as typeof opened.request };
  };
}

/** Whether the RPC itself said no, as it does of a call that reverts. */
function isAnswer(error: unknown): boolean {
  return error instanceof BaseError && error.walk((cause) => cause instanceof RpcRequestError) !== null;
}

/** The chain id in a CAIP-2 `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
