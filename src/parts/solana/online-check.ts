import { Rpc } from "../../chain/rpc.ts";
import type { AcceptedToken, PeerFindings, PeerProblem, X402Config } from "../../config/config.ts";
import { unreachableText } from "../../node/unreachable.ts";
import { tokenAccountOf } from "./addresses.ts";
import { ACCOUNT_STATE, MINT_DECIMALS, readAccount, readReference } from "./chain.ts";
import { solanaTokens } from "./config.ts";
import { ACCOUNT_BYTES, PROGRAMS, toBase58 } from "./portable/addresses.ts";

/** Longest time to wait for one answer. */
const TIMEOUT_MS = 10_000;
const MINT_BYTES = 82;

/** Checks that the tokens on Solana are mints of the SPL Token program whose seller has an account for them. */
export async function checkTokens({ acceptedTokens }: X402Config): Promise<PeerFindings> {
  const found = await Promise.all(
    acceptedTokens.map(async (token, i) => {
      const problem = token.transferMethod === solanaTokens.name ? await findProblem(token) : undefined;
      return problem === undefined
        ? []
        : [{ ...problem, path: ["x402", "accepted_tokens", i, ...problem.path] }];
    }),
  );
  return { notes: [], problems: found.flat() };
}

async function findProblem(token: AcceptedToken): Promise<PeerProblem | undefined> {
  const { network, asset, decimals, payTo, rpcUrl = "" } = token;
  try {
    const rpc = new Rpc({ rpcUrl, timeoutMs: TIMEOUT_MS });
    const actual = `solana:${await readReference(rpc)}`;
    if (actual !== network) return { path: ["rpc_url"], message: `is of ${actual}; expected ${network}` };
    const mint = await readAccount(rpc, asset);
    if (mint?.owner !== PROGRAMS.token || mint.data.length !== MINT_BYTES) {
      const isOfProgram = mint?.owner === PROGRAMS.token;
      const other = isOfProgram ? "is an account for a token" : `belongs to the program ${mint?.owner}`;
      const found = mint === undefined ? "does not exist" : other;
      const message = `${found} on ${network}; expected a mint of the SPL Token program. jobgate takes no tokens of Token-2022, which can charge a fee or run a hook`;
      return { path: ["asset"], message };
    }
    const actualDecimals = mint.data[MINT_DECIMALS];
    if (actualDecimals !== decimals)
      return { path: ["decimals"], message: `is ${decimals}; expected ${actualDecimals}, as the mint says` };
    const account = tokenAccountOf(payTo, asset);
    const held = await readAccount(rpc, account);
    const holder = held && toBase58(held.data.subarray(ACCOUNT_BYTES, 2 * ACCOUNT_BYTES));
    if (held?.owner === PROGRAMS.token && holder !== payTo)
      return {
        path: ["pay_to"],
        message: `has an account for the token (${account}) that belongs to ${holder} now, who would get what is paid; expected another pay_to`,
      };
    if (held?.owner !== PROGRAMS.token || held.data[ACCOUNT_STATE] !== 1) {
      const state =
        held === undefined ? "has no account for the token" : "has a frozen account for the token";
      return { path: ["pay_to"], message: `${state} (${account}), so that no client can pay; expected one` };
    }
    return undefined;
  } catch (error) {
    return {
      path: ["rpc_url"],
      message: `does not answer as an RPC of Solana (${unreachableText(rpcUrl, error)})`,
    };
  }
}
