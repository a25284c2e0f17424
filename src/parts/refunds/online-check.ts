import { privateKeyToAddress } from "viem/accounts";
import { isEvm } from "../../chain/chain-client.ts";
import { coinOf } from "../../chain/coins.ts";
import type { AcceptedToken, PeerFindings } from "../../config/config.ts";
import { amountText, decimalText } from "../../core/amounts.ts";
import { NO_TELEMETRY } from "../../core/telemetry.ts";
import { unreachableText } from "../../node/unreachable.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { SettlerChain } from "../transactions/chain.ts";
import type { RefundsConfig } from "./config.ts";

interface Balances {
  readonly account: string;
  /** 10⁻¹⁸ of the native unit. */
  readonly balanceWei: bigint;
  /** Units of the token. */
  readonly tokens: bigint;
}

/** Reads what the refund accounts hold, in each token that they pay back. */
export async function checkAccounts(
  config: RefundsConfig,
  {
    methods,
    tokens,
    timeoutMs,
  }: { readonly methods: Methods; readonly tokens: readonly AcceptedToken[]; readonly timeoutMs: number },
): Promise<PeerFindings> {
  const found = await Promise.all(
    tokens.map(async (token, i): Promise<PeerFindings> => {
      const { network, symbol, decimals, rpcUrl } = token;
      if (rpcUrl === undefined) return { notes: [], problems: [] };
      try {
        const held = await readBalances(config, { methods, token: { ...token, rpcUrl }, timeoutMs });
        if (held === undefined) return { notes: [], problems: [] };
        const coins = (wei: bigint) => `${decimalText(wei, 18)} ${coinOf(network)}`;
        const isLow = held.balanceWei < config.minBalanceWei;
        const low = isLow ? `, less than min_balance ${coins(config.minBalanceWei)}` : "";
        const short = held.tokens === 0n ? ": refunds wait until it has tokens" : "";
        const amount = amountText(held.tokens.toString(), symbol, decimals);
        const balance = `balance ${coins(held.balanceWei)}${low}; ${amount}${short}`;
        return { notes: [`refunds on ${network}: ${held.account} (${balance})`], problems: [] };
      } catch (error) {
        const message = `does not tell what the refund account holds (${unreachableText(rpcUrl, error)})`;
        return { notes: [], problems: [{ path: ["x402", "accepted_tokens", i, "rpc_url"], message }] };
      }
    }),
  );
  return {
    // A token is listed once for each of its transfer methods.
    notes: [...new Set(found.flatMap(({ notes }) => notes))],
    problems: found.flatMap(({ problems }) => problems),
  };
}

/** @returns undefined if no account pays back in the token */
async function readBalances(
  { signer, accounts }: RefundsConfig,
  {
    methods,
    token: { network, asset, rpcUrl },
    timeoutMs,
  }: {
    readonly methods: Methods;
    readonly token: AcceptedToken & { readonly rpcUrl: string };
    readonly timeoutMs: number;
  },
): Promise<Balances | undefined> {
  const feePayer = accounts.get(network);
  const own = methods.ownSettlement(network);
  if (feePayer !== undefined && own !== undefined) {
    const access = { network, rpcUrl, rpcTimeoutMs: timeoutMs, feePayer };
    const [balance, tokens] = await Promise.all([own.readBalance(access), own.readTokens(access, asset)]);
    return { ...balance, tokens };
  }
  if (signer === undefined || !isEvm(network)) return undefined;
  const account = privateKeyToAddress(signer.privateKey);
  const chain = new SettlerChain({ network, rpcUrl, timeoutMs, telemetry: NO_TELEMETRY });
  const [balanceWei, tokens] = await Promise.all([
    chain.balance(account),
    chain.tokenBalance(asset, account),
  ]);
  return { account, balanceWei, tokens };
}
