import type { FacilitatorRequest } from "../../../x402/facilitators/facilitator.ts";
import { tokenAccountOf } from "../addresses.ts";
import { isSignedByPayer, readTransfer, type Transfer } from "../payment.ts";

/** A payment whose transaction the fee payer may sign. */
export interface Settlement {
  /** Hash of the message. It identifies the payment's transaction, because a message lands once. */
  readonly reference: string;
  /** The transaction without its fee payer's signature. */
  readonly base64: string;
  readonly payer: string;
  readonly destination: string;
}

/** Highest price of a compute unit, in millionths of a lamport: the limit of the official facilitator. */
const MAX_UNIT_PRICE = 5_000_000n;
/**
 * Highest cost of a payment's compute units for the fee payer, in millionths of a lamport. It is 0.0001 SOL, which the
 * units of the official client cost at the highest price. The payer chooses the number of units and their price, and a
 * transaction may request 1.4 million units.
 */
const MAX_UNITS_COST = 100_000n * 1_000_000n;

/**
 * Reads a request to verify or to settle, which any seller may have sent.
 * @returns the reason if the fee payer must not sign the transaction, or it does not pay what the seller requires
 */
export function readSettlement(
  { payload, requirements }: FacilitatorRequest,
  feePayer: string,
): Settlement | { readonly reason: string } {
  const { payload: signed } = payload as { readonly payload?: { readonly transaction?: unknown } };
  const base64 = signed?.transaction;
  if (requirements.scheme !== "exact" || typeof base64 !== "string") return { reason: "unsupported_scheme" };
  try {
    const transfer = readTransfer(base64);
    const problem = findProblem(transfer, requirements as unknown as Required, feePayer);
    if (problem !== undefined) return { reason: problem };
    const { transaction, payer, destination } = transfer;
    return { reference: transaction.messageHash, base64, payer, destination };
  } catch (error) {
    return { reason: `invalid_transaction: ${(error as Error).message}` };
  }
}

interface Required {
  readonly asset: string;
  readonly payTo: string;
  readonly amount: string;
  readonly extra?: { readonly feePayer?: unknown; readonly memo?: unknown };
}

/** No instruction names the fee payer, because readTransfer refuses such a transaction. */
function findProblem(transfer: Transfer, required: Required, feePayer: string): string | undefined {
  const { asset, payTo, amount, extra } = required;
  if (transfer.feePayer !== feePayer || (extra?.feePayer ?? feePayer) !== feePayer)
    return "fee_payer_mismatch";
  const { units, price } = computeBudgetOf(transfer);
  if (price > MAX_UNIT_PRICE) return "compute_price_too_high";
  if (units * price > MAX_UNITS_COST) return "compute_fee_too_high";
  if (transfer.mint !== asset) return "mint_mismatch";
  if (transfer.destination !== tokenAccountOf(payTo, asset)) return "recipient_mismatch";
  if (transfer.amount !== BigInt(amount)) return "amount_mismatch";
  if (extra?.memo !== undefined && extra.memo !== transfer.memo) return "memo_mismatch";
  return isSignedByPayer(transfer) ? undefined : "invalid_signature";
}

/** readTransfer checked that the first two instructions are SetComputeUnitLimit and SetComputeUnitPrice. */
function computeBudgetOf({ transaction }: Transfer): { readonly units: bigint; readonly price: bigint } {
  const [limit, price] = transaction.instructions.map(({ data }) => Buffer.from(data));
  return { units: BigInt(limit?.readUInt32LE(1) ?? 0), price: price?.readBigUInt64LE(1) ?? 0n };
}
