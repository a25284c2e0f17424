import { parentPort } from "node:worker_threads";
import * as chains from "viem/chains";
import type { NetworkDescription } from "../../x402/methods/method.ts";

/** The EVM chains of viem, by their CAIP-2 network. */
const networks = new Map<string, NetworkDescription>();

for (const { id, name, blockExplorers } of Object.values<chains.Chain>(chains)) {
  const network = `eip155:${id}`;
  const url = (blockExplorers as chains.Chain["blockExplorers"])?.default.url.replace(/\/$/, "");
  const explorer = url?.startsWith("https://")
    ? { transactionUrl: `${url}/tx/{}`, accountUrl: `${url}/address/{}` }
    : undefined;
  // Chains of development share IDs.
  if (!networks.has(network)) networks.set(network, { name, explorer });
}

parentPort?.postMessage(networks);
