import {
  BaseError,
  createPublicClient,
  HttpRequestError,
  http,
  type PublicClient,
  RpcRequestError,
  type Transport,
} from "viem";
import { measure, NO_TELEMETRY, type Telemetry } from "../telemetry/telemetry.ts";
import { splitCredentials } from "./basic-auth.ts";

/** Who is told of an RPC's calls, and what they are for. */
export interface RpcObserver {
  readonly telemetry: Telemetry;
  readonly purpose: "permission" | "evidence";
}

export interface RpcClientOptions {
  /** May hold credentials. */
  readonly rpcUrl: string;
  /** For one call. */
  readonly timeoutMs: number;
  /** Default: nobody is told. */
  readonly observer?: RpcObserver | undefined;
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

export function createChainClient({ rpcUrl, chainId, timeoutMs, observer }: ChainClientOptions): ChainClient {
  let expected = chainId;
  let checked: Promise<void> | undefined;
  const forget = () => {
    checked = undefined;
  };
  const client = createRpcClient({ rpcUrl, timeoutMs, observer, onNoAnswer: forget });

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
  observer = { telemetry: NO_TELEMETRY, purpose: "evidence" },
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
    transport: observedTransport(transport, observer, onNoAnswer),
    // A contract could otherwise have jobgate fetch any URL (EIP-3668).
    ccipRead: false,
  });
}

function observedTransport(
  transport: Transport,
  { telemetry, purpose }: RpcObserver,
  onNoAnswer: () => void,
): Transport {
  return (parameters) => {
    const opened = transport(parameters);
    const request = async (...args: Parameters<typeof opened.request>) => {
      const [{ method }] = args;
      try {
        return await measure(
          telemetry,
          {
            histogram: "jobgate_chain_rpc_duration_seconds",
            labels: (result) => ({ purpose, method, outcome: "value" in result ? "ok" : "error" }),
            span: "chain.rpc",
            attributes: { "rpc.method": method, "jobgate.purpose": purpose },
          },
          () => opened.request(...args),
        );
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

/** Whether the RPC, or what stands before it, refuses this very question; another one it may answer. */
export function isRefusal(error: unknown): boolean {
  if (isAnswer(error)) return true;
  const http = error instanceof BaseError && error.walk((cause) => cause instanceof HttpRequestError);
  return http instanceof HttpRequestError && [400, 413, 422].includes(http.status ?? 0);
}

/** The chain id in a CAIP-2 `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
