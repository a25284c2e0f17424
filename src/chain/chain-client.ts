import { asNumber, Rpc, type RpcOptions } from "./rpc.ts";

/** The chain that an RPC is expected to serve. */
interface ExpectedChain {
  /** ID of the chain. If it is undefined, the first ID that the RPC returns is expected from then on. */
  readonly id: number | string | undefined;
  /** Queries the ID of the RPC's chain. */
  read(rpc: Rpc): Promise<number | string>;
}

/** Client for one chain, behind one RPC endpoint. */
export class ChainClient {
  readonly #rpc: Rpc;
  readonly #readId: ExpectedChain["read"];
  #id: ExpectedChain["id"];
  #checked: Promise<void> | undefined;

  /** @param chain default: the EVM chain with the ID `chainId` */
  constructor(
    rpc: RpcOptions & { readonly chainId?: number },
    chain: ExpectedChain = { id: rpc.chainId, read: readChainId },
  ) {
    this.#id = chain.id;
    this.#readId = chain.read;
    this.#rpc = new Rpc(rpc, () => this.#forgetCheck());
  }

  /**
   * Returns the RPC after checking that it serves the right chain. The check runs once, and again after a call without
   * an answer. The address may then lead to another chain, whose answers would be wrong.
   * @throws Error when the RPC cannot be reached or serves another chain
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
    const actual = await this.#readId(this.#rpc);
    this.#id ??= actual;
    if (actual !== this.#id) {
      throw new Error(`the RPC is for chain ${actual}, expected chain ${this.#id}`);
    }
  }

  #forgetCheck(): void {
    this.#checked = undefined;
  }
}

export async function readChainId(rpc: Rpc): Promise<number> {
  return Number(asNumber(await rpc.call("eth_chainId", [])));
}

/** Reports whether a CAIP-2 network is an EVM chain. */
export function isEvm(network: string): boolean {
  return network.startsWith("eip155:");
}

/** Returns the chain ID in a CAIP-2 `eip155:N`. */
export function chainIdOf(network: string): number {
  return Number(network.slice("eip155:".length));
}
