import { BaseError, erc20Abi } from "viem";
import { z } from "zod";
import { splitCredentials } from "../chain/basic-auth.ts";
import { createRpcClient } from "../chain/chain-client.ts";
import type { AcceptedToken, JobPolicy, X402Config } from "../config/config.ts";
import { findRateProblem } from "../pricing/rates/live-rate.ts";

/** A problem with a peer, at the configuration key that names the peer. */
interface PeerProblem {
  readonly path: readonly (string | number)[];
  /** Never contains the URL, which may contain a key. */
  readonly message: string;
}

/** Longest time to wait for one answer. */
const MAX_TIMEOUT_MS = 10_000;

/** Checks that the facilitator, every chain and every rate source in the configuration are what it says they are. */
export async function findX402Problems(config: X402Config): Promise<PeerProblem[]> {
  const found = await Promise.all([
    facilitatorProblems(config),
    ...config.acceptedTokens.map((token, i) => tokenProblems(token, ["x402", "accepted_tokens", i])),
    ...config.acceptedTokens.map((token, i) => rateProblems(token, ["x402", "accepted_tokens", i])),
    ...config.jobPolicies.map((policy, i) => policyProblems(policy, ["x402", "job_policies", i])),
  ]);
  return found.flat();
}

const supportedAnswer = z.object({
  kinds: z.array(z.object({ x402Version: z.number(), scheme: z.string(), network: z.string() })),
});

async function facilitatorProblems(config: X402Config): Promise<PeerProblem[]> {
  const problem = (message: string) => [{ path: ["x402", "facilitator_url"], message }];
  let body: unknown;
  try {
    const { url, headers } = splitCredentials(config.facilitatorUrl);
    const response = await fetch(`${url}/supported`, {
      headers,
      redirect: "error",
      signal: AbortSignal.timeout(Math.min(config.facilitatorTimeoutMs, MAX_TIMEOUT_MS)),
    });
    if (!response.ok) {
      await response.body?.cancel();
      return problem(`answers /supported with status ${response.status}; expected 200`);
    }
    body = await response.json();
  } catch (error) {
    const isNotJson = error instanceof SyntaxError;
    const what = isNotJson ? "answers /supported with something other than JSON" : "does not answer";
    return problem(`${what}; expected an x402 facilitator`);
  }
  const answer = supportedAnswer.safeParse(body);
  if (!answer.success)
    return problem("answers /supported with no list of kinds; expected an x402 facilitator");
  const networks = answer.data.kinds
    .filter(({ x402Version, scheme }) => x402Version === 2 && scheme === "exact")
    .map(({ network }) => network);
  return config.acceptedTokens.flatMap(({ network }, i) => {
    // One pattern can mean all EVM chains.
    if (networks.includes(network) || networks.includes("eip155:*")) return [];
    const message = `the facilitator does not settle "exact" payments on ${network} in x402 version 2; expected one of ${networks.join(", ") || "none"}`;
    return [{ path: ["x402", "accepted_tokens", i, "network"], message }];
  });
}

async function tokenProblems(token: AcceptedToken, path: PeerProblem["path"]): Promise<PeerProblem[]> {
  if (token.rpcUrl === undefined) return [];
  const client = createRpcClient({ rpcUrl: token.rpcUrl, timeoutMs: MAX_TIMEOUT_MS });
  try {
    const chainId = await client.getChainId();
    if (`eip155:${chainId}` !== token.network) {
      return [{ path: [...path, "rpc_url"], message: `is of eip155:${chainId}; expected ${token.network}` }];
    }
    if ((await client.getCode({ address: token.asset })) === undefined) {
      return [{ path: [...path, "asset"], message: `has no contract on ${token.network}; expected a token` }];
    }
  } catch (error) {
    return [{ path: [...path, "rpc_url"], message: unanswered(error) }];
  }
  // Wrong decimals would charge a power of ten too much or too little. A token need not implement decimals().
  const decimals = await client
    .readContract({ address: token.asset, abi: erc20Abi, functionName: "decimals" })
    .catch(() => token.decimals);
  if (decimals === token.decimals) return [];
  return [
    { path: [...path, "decimals"], message: `is ${token.decimals}; expected ${decimals}, as the token says` },
  ];
}

async function rateProblems({ rate }: AcceptedToken, path: PeerProblem["path"]): Promise<PeerProblem[]> {
  const problem = await findRateProblem(rate);
  return problem === undefined ? [] : [{ path: [...path, ...problem.path], message: problem.message }];
}

async function policyProblems({ restriction }: JobPolicy, path: PeerProblem["path"]): Promise<PeerProblem[]> {
  if (restriction === undefined) return [];
  try {
    const client = createRpcClient({ rpcUrl: restriction.chainRpcUrl, timeoutMs: MAX_TIMEOUT_MS });
    const code = await client.getCode({ address: restriction.chainContract });
    if (code !== undefined) return [];
    return [
      {
        path: [...path, "chain_contract"],
        message: "has no contract on this chain; expected the one to ask",
      },
    ];
  } catch (error) {
    return [{ path: [...path, "chain_rpc_url"], message: unanswered(error) }];
  }
}

function unanswered(error: unknown): string {
  // The short message, because the long one contains the URL.
  const reason = error instanceof BaseError ? ` (${error.shortMessage})` : "";
  return `does not answer as a chain's RPC${reason}; expected an Ethereum JSON-RPC endpoint`;
}
