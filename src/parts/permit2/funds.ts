import type { Rpc } from "../../chain/rpc.ts";
import type { PayerFundsReader } from "../../x402/methods/method.ts";
import { isUsed, LOW_BALANCE, readBalance, USED_ELSEWHERE } from "../../x402/methods/payer-balance.ts";
import type { AuthorizedPayment } from "../../x402/settlement/authorization.ts";
import { addressWord } from "../../x402/settlement/chain-logs.ts";
import { Permit2Authorization } from "./authorization.ts";
import { PERMIT2_CONTRACT } from "./contracts.ts";
import { approvalOf } from "./sponsored-approval.ts";

/** `allowance(address,address)` */
const ALLOWANCE = "0xdd62ed3e";

/** Reads the limits of a payer: the balance of the token, and the allowance for Permit2. */
export const payerFunds: PayerFundsReader = {
  async read(rpc, payment) {
    const { balance, allowance } = await readFunds(rpc, payment);
    if (balance === undefined || allowance === undefined) return balance ?? allowance;
    const isBoundByAllowance = allowance < balance;
    return isBoundByAllowance ? allowance : balance;
  },

  /** The payer may have moved the tokens or taken back Permit2's allowance, and another seller may have used the authorization. */
  async findShortfall(rpc, payment) {
    const ceiling = BigInt(payment.amount);
    const authorization = new Permit2Authorization(payment);
    const [{ balance, allowance }, wasUsed] = await Promise.all([
      readFunds(rpc, payment),
      isUsed(rpc, authorization),
    ]);
    if (wasUsed) return USED_ELSEWHERE;
    if (balance !== undefined && balance < ceiling) return LOW_BALANCE;
    if (allowance !== undefined && allowance < ceiling)
      return "the payer's allowance for Permit2 is less than the ceiling";
    return undefined;
  },
};

/**
 * Reads a payer's balance of a token, and the allowance for Permit2 that the settlement finds. Each is undefined when the
 * token does not answer.
 */
async function readFunds(
  rpc: Rpc,
  { key, payload }: Pick<AuthorizedPayment, "key" | "payload">,
): Promise<{ readonly balance: bigint | undefined; readonly allowance: bigint | undefined }> {
  const payer = addressWord(key.payer);
  const approval = approvalOf(payload, key);
  const [balance, allowance, isGood] = await Promise.all([
    readBalance(rpc, { key }),
    rpc.callForWord({ to: key.asset, data: `${ALLOWANCE}${payer}${addressWord(PERMIT2_CONTRACT)}` }),
    approval?.isUnused(rpc),
  ]);
  return { balance, allowance: isGood ? approval?.amount : allowance };
}
