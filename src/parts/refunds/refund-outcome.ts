import type { TransferEnd } from "../../core/payment.ts";
import { readTransfer } from "../../x402/settlement/chain-logs.ts";
import type { Transfer } from "../../x402/transfer-sender.ts";
import type { Receipt } from "../transactions/chain.ts";
import type { TransactionRecord } from "../transactions/store/journal.ts";

/** Facts about the transaction of a refund that is being sent. */
export interface RefundFacts {
  readonly refund: Transfer;
  readonly record: TransactionRecord;
  /** Receipt in a block that is part of the chain. */
  readonly receipt: Receipt | undefined;
  /** Newest block. */
  readonly head: bigint;
  /** Blocks that confirm a transaction, its own included. */
  readonly confirmations: bigint;
  /** Reason why the transfer would revert now, in the chain's words; undefined if it does not. */
  readonly revert: string | undefined;
  /** True if the account holds enough tokens for the refund. */
  readonly hasFunds: boolean;
}

/**
 * Decides the outcome of a refund. A refund is made once a confirmed receipt has the token's log of the transfer. It has
 * failed only once its transaction can never be mined, or is final and moved nothing, because only then may another
 * transaction be sent.
 * @returns undefined while nothing is certain
 */
export function refundOutcome(facts: RefundFacts): TransferEnd | undefined {
  const { record, receipt, head, confirmations } = facts;
  const { state, reason = "no reason given" } = record;
  switch (state) {
    case "queued":
      return undefined;
    case "dropped":
      if (!facts.hasFunds) return { state: "unsigned" };
      return facts.revert === undefined
        ? { state: "unsigned", reason: `the node refused it: ${reason}` }
        : { state: "failed", reason: `the token refuses the transfer: ${facts.revert}` };
    case "sent":
    case "succeeded": {
      if (receipt?.status !== "success" || head - receipt.blockNumber + 1n < confirmations) return undefined;
      if (showsTransfer(facts, receipt))
        return {
          ...{ state: "sent", transaction: receipt.hash, blockNumber: String(receipt.blockNumber) },
          account: record.signed?.account ?? null,
        };
      if (state === "sent") return undefined;
      const transaction = receipt.hash;
      return {
        state: "failed",
        transaction,
        reason:
          "its transaction succeeded, but the token logged no transfer of the amount: look at it before you approve another one",
      };
    }
    case "reverted": {
      const why = facts.revert === undefined ? "" : `: ${facts.revert}`;
      return {
        state: "failed",
        reason: `its transaction reverted${why}`,
        ...(record.mined === undefined ? {} : { transaction: record.mined.hash }),
      };
    }
  }
}

function showsTransfer({ refund, record }: RefundFacts, { logs }: Receipt): boolean {
  const account = record.signed?.account.toLowerCase();
  return logs.some((log) => {
    if (log.address.toLowerCase() !== refund.asset.toLowerCase()) return false;
    const moved = readTransfer(log);
    return (
      moved?.from === account &&
      moved?.to === refund.payer.toLowerCase() &&
      moved.value === BigInt(refund.amount)
    );
  });
}
