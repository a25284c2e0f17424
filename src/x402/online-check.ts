import { isEvm, readChainId } from "../chain/chain-client.ts";
import { asHex, asNumber, Rpc, RpcError } from "../chain/rpc.ts";
import type { AcceptedToken, PeerFindings, PeerProblem, X402Config } from "../config/config.ts";
import { unreachableText } from "../node/unreachable.ts";
import { checkFacilitators, isConfigured } from "./facilitators/online-check.ts";
import type { Methods } from "./methods/methods.ts";

/** Longest time to wait for one answer. */
const MAX_TIMEOUT_MS = 10_000;
/** ERC-20's `decimals()`. */
const DECIMALS = "0x313ce567";

/**
 * Checks that the facilitators and the tokens' chains match the configuration.
 * @returns the problems, and descriptions of the facilitators' support
 */
export async function checkX402Peers(config: X402Config, methods: Methods): Promise<PeerFindings> {
  const charges = (config.jobs ?? []).flatMap(({ charge = [] }) => charge);
  const schemes = new Set(["exact", ...charges.flatMap((charge) => methods.schemeOf(charge) ?? [])]);
  const of = { methods, schemes };
  const [{ notes, problems }, ...found] = await Promise.all([
    checkFacilitators(config, methods),
    ...config.acceptedTokens
      .filter(isConfigured)
      .map((token, i) => tokenProblems(token, of, ["x402", "accepted_tokens", i])),
  ]);
  return { notes, problems: [...problems, ...found.flat()] };
}

async function tokenProblems(
  token: AcceptedToken,
  { methods, schemes }: { readonly methods: Methods; readonly schemes: Iterable<string> },
  path: PeerProblem["path"],
): Promise<PeerProblem[]> {
  // A part checks the tokens of its own kind of chain.
  if (token.rpcUrl === undefined || !isEvm(token.network)) return [];
  const rpc = new Rpc({ rpcUrl: token.rpcUrl, timeoutMs: MAX_TIMEOUT_MS });
  try {
    const chainId = await readChainId(rpc);
    if (`eip155:${chainId}` !== token.network) {
      return [{ path: [...path, "rpc_url"], message: `is of eip155:${chainId}; expected ${token.network}` }];
    }
    if (!(await hasContract(rpc, token.asset))) {
      return [{ path: [...path, "asset"], message: `has no contract on ${token.network}; expected a token` }];
    }
    for (const scheme of schemes) {
      const message = await methods.get(token.transferMethod).findChainProblem?.(rpc, { ...token, scheme });
      if (message !== undefined) return [{ path: [...path, "transfer_method"], message }];
    }
  } catch (error) {
    return [{ path: [...path, "rpc_url"], message: unanswered(token.rpcUrl, error) }];
  }
  // Wrong decimals would charge a power of ten too much or too little. A token may lack decimals().
  const decimals = await rpc
    .callContract(token.asset, DECIMALS)
    .then((answer) => Number(asNumber(answer)))
    .catch(() => token.decimals);
  if (decimals === token.decimals) return [];
  return [
    { path: [...path, "decimals"], message: `is ${token.decimals}; expected ${decimals}, as the token says` },
  ];
}

/** @throws Error if the chain cannot be queried */
export async function hasContract(rpc: Rpc, address: string): Promise<boolean> {
  return asHex(await rpc.call("eth_getCode", [address, "latest"])) !== "0x";
}

/** Describes the problem of an RPC URL that does not answer. */
export function unanswered(rpcUrl: string, error: unknown): string {
  const reason =
    error instanceof RpcError ? `${new URL(rpcUrl).host}: ${error.message}` : unreachableText(rpcUrl, error);
  return `does not answer as a chain's RPC (${reason}); expected an Ethereum JSON-RPC endpoint`;
}
