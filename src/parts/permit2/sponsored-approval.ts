import { decodeFunctionData, erc20Abi, parseTransaction } from "viem";
import * as z from "zod";
import { asNumber, type Rpc } from "../../chain/rpc.ts";
import type { PaymentKey } from "../../core/payment.ts";
import { address, signature, uint } from "../../x402/methods/payload-values.ts";
import { addressWord } from "../../x402/settlement/chain-logs.ts";
import { PERMIT2_CONTRACT } from "./contracts.ts";

/** Approval for Permit2 that a payer signed, and a facilitator that sponsors gas sends with the settlement. */
interface SponsoredApproval {
  /** Allowance that it sets, in token units. */
  readonly amount: bigint;
  /** Queries the chain whether the approval can still be sent, because each approval is valid once. */
  isUnused(rpc: Rpc): Promise<boolean>;
}

const permitInfo = z.object({
  from: address,
  asset: address,
  spender: address,
  amount: uint,
  nonce: uint,
  deadline: uint,
  signature,
});
const approvalInfo = z.object({ from: address, asset: address, signedTransaction: z.string().regex(/^0x/) });

const filledIn = z.object({
  extensions: z.object({
    eip2612GasSponsoring: z.object({ info: permitInfo }).optional().catch(undefined),
    erc20ApprovalGasSponsoring: z.object({ info: approvalInfo }).optional().catch(undefined),
  }),
});

/** `nonces(address)` of EIP-2612 */
const NONCES = "0x7ecebe00";

/**
 * Returns the approval that a payment brings; undefined if it has no approval, because clients may also return the declared
 * extension without a signature.
 * @param payload JSON of the payment payload
 */
export function approvalOf(payload: string, key: PaymentKey): SponsoredApproval | undefined {
  const { data } = filledIn.safeParse(JSON.parse(payload));
  const { eip2612GasSponsoring: permit, erc20ApprovalGasSponsoring: approval } = data?.extensions ?? {};
  if (permit !== undefined) return permitOf(permit.info, key);
  return approval && transactionOf(approval.info, key);
}

function permitOf(info: z.output<typeof permitInfo>, key: PaymentKey): SponsoredApproval | undefined {
  if (!isFor(info, key) || !isSame(info.spender, PERMIT2_CONTRACT)) return undefined;
  const nonceCall = { to: key.asset, data: `${NONCES}${addressWord(key.payer)}` };
  return { amount: info.amount, isUnused: async (rpc) => (await rpc.callForWord(nonceCall)) === info.nonce };
}

function transactionOf(info: z.output<typeof approvalInfo>, key: PaymentKey): SponsoredApproval | undefined {
  if (!isFor(info, key)) return undefined;
  try {
    const { to, data, nonce = 0 } = parseTransaction(info.signedTransaction as `0x${string}`);
    const call = decodeFunctionData({ abi: erc20Abi, data: data ?? "0x" });
    if (call.functionName !== "approve" || !isSame(to ?? "", key.asset)) return undefined;
    const [spender, amount] = call.args;
    if (!isSame(spender, PERMIT2_CONTRACT)) return undefined;
    const counts = (rpc: Rpc) => rpc.call("eth_getTransactionCount", [key.payer, "latest"]);
    return { amount, isUnused: async (rpc) => asNumber(await counts(rpc)) === BigInt(nonce) };
  } catch {
    return undefined;
  }
}

const isSame = (left: string, right: string) => left.toLowerCase() === right.toLowerCase();

function isFor(info: { readonly from: string; readonly asset: string }, key: PaymentKey): boolean {
  return isSame(info.from, key.payer) && isSame(info.asset, key.asset);
}
