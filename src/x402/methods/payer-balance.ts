import type { Rpc } from "../../chain/rpc.ts";
import type { Authorization, AuthorizedPayment } from "../settlement/authorization.ts";
import { addressWord } from "../settlement/chain-logs.ts";

/** Selector of `balanceOf(address)`. */
const BALANCE_OF = "0x70a08231";

/** Reads a payer's balance of a token. @returns undefined when the token does not answer */
export function readBalance(rpc: Rpc, { key }: Pick<AuthorizedPayment, "key">): Promise<bigint | undefined> {
  return rpc.callForWord({ to: key.asset, data: `${BALANCE_OF}${addressWord(key.payer)}` });
}

/** Checks whether an authorization is used. @returns false when its contract does not answer */
export async function isUsed(rpc: Rpc, authorization: Authorization): Promise<boolean> {
  const answer = await rpc.callForWord(authorization.nonceCall);
  return answer !== undefined && authorization.isUsed(answer) === true;
}

export const USED_ELSEWHERE = "the payer's authorization was used elsewhere";
export const LOW_BALANCE = "the payer's balance is less than the ceiling";
