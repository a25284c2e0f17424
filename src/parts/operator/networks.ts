import { startWorkerThread } from "../../node/worker-thread.ts";
import { invalid } from "../../operator/requests.ts";
import type { LoadMethods } from "../../part.ts";
import type { NetworkDescription } from "../../x402/methods/method.ts";

type EvmNetworks = ReadonlyMap<string, NetworkDescription>;

const MAX_NETWORKS = 100;

/** Names and explorers of networks: of EVM chains from viem, of others from the transfer methods that pay on them. */
export class Networks {
  /** Read once for the process, because viem's chains do not change. */
  static #evm: Promise<EvmNetworks> | undefined;
  readonly #loadMethods: LoadMethods;

  constructor(loadMethods: LoadMethods) {
    this.#loadMethods = loadMethods;
  }

  /** @throws ConnectError INVALID_ARGUMENT for more than 100 networks */
  async describe(networks: readonly string[]) {
    if (networks.length > MAX_NETWORKS) throw invalid(`networks: expected at most ${MAX_NETWORKS} of them.`);
    return Promise.all(networks.map((network) => this.#describe(network)));
  }

  async #describe(network: string) {
    const { name = "", explorer } = (await this.#find(network)) ?? {};
    const { transactionUrl = "", accountUrl = "" } = explorer ?? {};
    return { network, name, transactionUrl, accountUrl };
  }

  async #find(network: string): Promise<NetworkDescription | undefined> {
    if (network.startsWith("eip155:")) return (await this.#evmNetworks()).get(network);
    for (const method of await this.#loadMethods()) {
      const found = method.describeNetwork?.(network);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #evmNetworks(): Promise<EvmNetworks> {
    Networks.#evm ??= readEvmNetworks().catch((error: unknown) => {
      Networks.#evm = undefined;
      throw error;
    });
    return Networks.#evm;
  }
}

/** Reads viem's chains in another thread: loading all of them takes over 100 ms, for which requests would wait. */
function readEvmNetworks(): Promise<EvmNetworks> {
  return new Promise((resolve, reject) => {
    const worker = startWorkerThread("networks-worker", import.meta.url, {});
    worker.unref();
    worker.once("message", resolve).once("error", reject);
    worker.once("exit", (code) =>
      reject(new Error(`the thread that reads names of networks ended with code ${code}`)),
    );
  });
}
