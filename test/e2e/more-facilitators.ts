import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { startFacilitator } from "../helpers/facilitator.ts";
import { type FaultProxy, startFaultProxy } from "../helpers/http-proxy.ts";
import { localSettler } from "./local-facilitator.ts";
import type { PaidParts } from "./paid-parts.ts";

/** A second remote facilitator behind a proxy, and the configuration with jobgate itself as the third. */
export interface MoreFacilitators {
  readonly proxy: FaultProxy;
  edit(config: string): string;
  /** Transactions of jobgate's own that were mined. */
  minedByLocal(): Promise<number>;
  stop(): Promise<void>;
}

export async function startMoreFacilitators({ anvil }: PaidParts): Promise<MoreFacilitators> {
  const privateKey = generatePrivateKey();
  await anvil.client.setBalance({ address: privateKeyToAccount(privateKey).address, value: 10n ** 20n });
  const remote = await startFacilitator({ anvil, privateKey, confirmationTimeoutMs: 3_000 });
  const proxy = await startFaultProxy({ target: remote.url });
  const local = await localSettler({ anvil, keys: 2 });
  return {
    proxy,
    edit(config) {
      const first = /^facilitator_url = "(.*)"$/m.exec(config)?.[1];
      const tables = [first, proxy.url].map((url) => `[[x402.facilitators]]\nurl = "${url}"\n`);
      return local.edit(`${config}\n${tables.join("")}`);
    },
    async minedByLocal() {
      const counts = local.addresses.map((address) => anvil.client.getTransactionCount({ address }));
      return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
    },
    async stop() {
      await proxy.stop();
      await remote.stop();
    },
  };
}
