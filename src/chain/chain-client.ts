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

/** An RPC endpoint and how to call it. */
interface Rpc {
  /** May hold credentials. */
  readonly rpcUrl: string;
  /** Time for one call, the body of its answer included. */
  readonly timeoutMs: number;
  /** Receives each call's duration and purpose. */
  readonly observer?: { readonly telemetry: Telemetry; readonly purpose: "permission" | "evidence" };
}

/** Client for one chain, behind one RPC endpoint. */
export class ChainClient {
  readonly #client: PublicClient;
  #chainId: number | undefined;
  #checked: Promise<void> | undefined;

  /** @param rpc without `chainId`, the first chain ID that the RPC names is the expected one from then on */
  constructor(rpc: Rpc & { readonly chainId?: number }) {
    this.#chainId = rpc.chainId;
    this.#client = createRpcClient(rpc, () => this.#forgetCheck());
  }

  /**
   * Returns the client after checking that the RPC speaks for the right chain. The check runs once, and again after a
   * call without an answer: another chain may be behind the same address then, which would answer every question
   * wrongly.
   * @throws Error when the RPC cannot be reached or is for another chain
   */
  async connect(): Promise<PublicClient> {
    this.#checked ??= this.#checkChain();
    try {
      await this.#checked;
    } catch (error) {
      this.#forgetCheck();
      throw error;
    }
    return this.#client;
  }

  async #checkChain(): Promise<void> {
    const actual = await this.#client.getChainId();
    this.#chainId ??= actual;
    if (actual !== this.#chainId) {
      throw new Error(`the RPC is for chain ${actual}, expected chain ${this.#chainId}`);
    }
  }

  #forgetCheck(): void {
    this.#checked = undefined;
  }
}

/** Creates a client for any chain behind an RPC endpoint. It never repeats a call and follows no redirect. */
export function createRpcClient(
  { rpcUrl, timeoutMs, observer }: Rpc,
  onNoAnswer: () => void = () => undefined,
): PublicClient {
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
    // A contract could otherwise make jobgate fetch any URL (EIP-3668).
    ccipRead: false,
  });
}

function observedTransport(
  transport: Transport,
  { telemetry, purpose }: NonNullable<Rpc["observer"]> = { telemetry: NO_TELEMETRY, purpose: "evidence" },
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

/** Tells an error that the RPC itself answered, such as a call that reverts, from a missing answer. */
function isAnswer(error: unknown): boolean {
  return error instanceof BaseError && error.walk((cause) => cause instanceof RpcRequestError) !== null;
}

/** Tells whether the RPC, or a proxy before it, refuses this very question. It may answer another. */
export function isRefusal(error: unknown): boolean {
  if (isAnswer(error)) return true;
  const http = error instanceof BaseError && error.walk((cause) => cause instanceof HttpRequestError);
  return http instanceof HttpRequestError && [400, 413, 422].includes(http.status ?? 0);
}

/** Returns the chain ID in a CAIP-2 `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
