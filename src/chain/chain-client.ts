import { asNumber, Rpc, type RpcOptions } from "./rpc.ts";

/** Client for one chain, behind one RPC endpoint. */
export class ChainClient {
  readonly #rpc: Rpc;
  #chainId: number | undefined;
  #checked: Promise<void> | undefined;

  /** @param rpc without `chainId`, the first chain ID that the RPC names is the expected one from then on */
  constructor(rpc: RpcOptions & { readonly chainId?: number }) {
    this.#chainId = rpc.chainId;
    this.#rpc = new Rpc(rpc, () => this.#forgetCheck());
  }

  /**
   * Returns the RPC after checking that it speaks for the right chain. The check runs once, and again after a
   * call without an answer: another chain may be behind the same address then, which would answer every question
   * wrongly.
   * @throws Error when the RPC cannot be reached or is for another chain
   */
  async connect(): Promise<Rpc> {
    this.#checked ??= this.#checkChain();
    try {
      await this.#checked;
    } catch (error) {
      this.#forgetCheck();
      throw error;
    }
    return this.#rpc;
  }

  async #checkChain(): Promise<void> {
    const actual = await readChainId(this.#rpc);
    this.#chainId ??= actual;
    if (actual !== this.#chainId) {
      throw new Error(`the RPC is for chain ${actual}, expected chain ${this.#chainId}`);
    }
  }

  #forgetCheck(): void {
    this.#checked = undefined;
  }
}

export async function readChainId(rpc: Rpc): Promise<number> {
  return Number(asNumber(await rpc.call("eth_chainId", [])));
}

/** Returns the chain ID in a CAIP-2 `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
