import { privateKeyToAddress } from "viem/accounts";
import { readChainId } from "../../chain/chain-client.ts";
import { coinOf } from "../../chain/coins.ts";
import { asNumber, Rpc } from "../../chain/rpc.ts";
import type { PeerFindings } from "../../config/config.ts";
import { decimalText } from "../../core/amounts.ts";
import { unreachableText } from "../../node/unreachable.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import type { LocalFacilitatorConfig } from "./config.ts";
import { settledScheme } from "./payment.ts";

/** Checks each chain's RPC, and reads the balances of the accounts that pay for gas. */
export async function checkChains(
  { signers, chains, minBalanceWei }: LocalFacilitatorConfig,
  methods: Methods,
  at: { readonly path: PeerFindings["problems"][number]["path"]; readonly timeoutMs: number },
): Promise<PeerFindings> {
  const schemes = ["exact", settledScheme(methods)?.name ?? []].flat().join(", ");
  const addresses = signers.map(({ privateKey }) => privateKeyToAddress(privateKey));
  const found = await Promise.all(
    chains.map(async ({ network, rpcUrl, feePayer }): Promise<PeerFindings> => {
      const rpc = new Rpc({ rpcUrl, timeoutMs: at.timeoutMs });
      const problem = (message: string) => ({
        notes: [],
        problems: [{ path: [...at.path, "rpc_urls"], message }],
      });
      const own = methods.ownSettlement(network);
      try {
        if (own !== undefined && feePayer !== undefined) {
          const access = { network, rpcUrl, rpcTimeoutMs: at.timeoutMs, feePayer };
          const { account, balanceWei } = await own.readBalance(access);
          const text = balanceText(account, balanceWei, { minBalanceWei, coin: coinOf(network) });
          return { notes: [`local: exact on ${network}; ${text}`], problems: [] };
        }
        const chainId = await readChainId(rpc);
        if (`eip155:${chainId}` !== network)
          return problem(`has the RPC of eip155:${chainId} for ${network}`);
        const balances = await Promise.all(
          addresses.map(async (address) => asNumber(await rpc.call("eth_getBalance", [address, "latest"]))),
        );
        const accounts = addresses.map((address, i) =>
          balanceText(address, balances[i] ?? 0n, { minBalanceWei, coin: coinOf(network) }),
        );
        return { notes: [`local: ${schemes} on ${network}; ${accounts.join(", ")}`], problems: [] };
      } catch (error) {
        return problem(
          `has an RPC for ${network} that does not answer (${unreachableText(rpcUrl, error)}); expected a JSON-RPC endpoint of the network`,
        );
      }
    }),
  );
  return {
    notes: found.flatMap(({ notes }) => notes),
    problems: found.flatMap(({ problems }) => problems),
  };
}

function balanceText(
  address: string,
  balanceWei: bigint,
  { minBalanceWei, coin }: { readonly minBalanceWei: bigint; readonly coin: string },
): string {
  const amount = (wei: bigint) => `${decimalText(wei, 18)} ${coin}`;
  const min = balanceWei < minBalanceWei ? `, less than min_balance ${amount(minBalanceWei)}` : "";
  return `${address} (balance ${amount(balanceWei)}${min})`;
}
