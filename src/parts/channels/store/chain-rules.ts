import type { ChannelRow, OpenedChannel } from "./row.ts";
import { claimGoal, max, min, newChannel, standing, withDue } from "./rules.ts";

/** State of a channel on its chain. Amounts are token units. */
export interface ChannelState {
  readonly balance: string;
  readonly totalClaimed: string;
  readonly refundNonce: string;
  /** Unix seconds; 0 if no withdrawal is pending. */
  readonly withdrawAt: number;
}

/** State of a channel in a confirmed block. */
export interface SeenChannel extends ChannelState {
  readonly block: number;
}

/**
 * Returns the state of a channel in its confirmed block, with two exceptions. A withdrawal in the newest block is used before
 * it is confirmed. A balance that the store already uses stays in use if the newest block shows it, because a lagging node may
 * not know a deposit yet.
 */
export function merged(
  row: Pick<ChannelRow, "balance" | "balance_block" | "withdraw_at">,
  { latest, confirmed }: { readonly latest: ChannelState; readonly confirmed: SeenChannel },
): SeenChannel {
  const counted = BigInt(row.balance);
  const isBehind = BigInt(confirmed.balance) < counted && BigInt(latest.balance) >= counted;
  // A withdrawal has ended once the newest and the confirmed block show the balance that the withdrawal has left.
  const isSame = latest.balance === confirmed.balance;
  return {
    ...confirmed,
    // The stored balance keeps its stored block. With a newer block it would replace the balance after a refund that has ended since.
    ...(isBehind && { balance: row.balance, block: row.balance_block }),
    withdrawAt: latest.withdrawAt || confirmed.withdrawAt || (isSame ? 0 : (row.withdraw_at ?? 0)),
  };
}

/**
 * Returns a new channel for a deposit that the chain shows and the store does not know: the payer signed the deposit, and another account
 * sent it. The payer's voucher has bought nothing.
 * @returns undefined for a channel without a deposit, and for a channel that was claimed, paid back or withdrawn from,
 * because another store has it
 */
export function adopted(opened: OpenedChannel, chain: SeenChannel, now: number): ChannelRow | undefined {
  const isUntouched = [chain.totalClaimed, chain.refundNonce].every((sum) => BigInt(sum) === 0n);
  if (!isUntouched || chain.withdrawAt > 0 || BigInt(chain.balance) === 0n) return undefined;
  return { ...newChannel(opened, now), balance: chain.balance, balance_block: chain.block };
}

/** Updates a channel by the state on its chain. */
export function seen(row: ChannelRow, chain: SeenChannel, now: number): ChannelRow {
  const claimed = String(max(BigInt(row.claimed), BigInt(chain.totalClaimed)));
  // Another claim of the same sum can come late, once the payer has deposited again.
  const lost = String(max(0n, min(BigInt(row.lost), BigInt(row.final) - BigInt(claimed))));
  const next = withDue({ ...row, claimed, lost, updated_at: now }, now);
  if (row.reason === RESTORED) return { ...next, withdraw_at: chain.withdrawAt || null };
  if (BigInt(chain.totalClaimed) > BigInt(row.asked))
    return stopped(next, "the chain shows a claim that this store has not made");
  if (row.status === "refunding") return next;
  const isShort = row.status === "stopped" && row.reason === SHORT;
  if (chain.withdrawAt > 0) {
    const withdrawing = { ...next, withdraw_at: chain.withdrawAt };
    // A lagging node may have stopped the channel, and the chain has the deposits after all.
    const isStopped = row.status === "stopped" && !(isShort && BigInt(chain.balance) >= BigInt(row.balance));
    return isStopped ? withdrawing : { ...withdrawing, status: "withdrawing", reason: null };
  }
  const shown = { balance: chain.balance, balance_block: chain.block };
  const isOld = chain.block < row.balance_block;
  // The payer has ended or cancelled the withdrawal.
  if (row.status === "withdrawing") {
    return isOld ? next : (withdrawn({ ...next, ...shown }, now) ?? next);
  }
  if (BigInt(chain.balance) < BigInt(row.balance)) {
    const isWithdrawn = isShort && !isOld && now - row.updated_at >= SHORT_MS;
    return (isWithdrawn ? withdrawn({ ...next, ...shown }, now) : undefined) ?? stopped(next, SHORT);
  }
  // A deposit is added even if another account sent it.
  const paid = BigInt(chain.balance) > BigInt(row.balance) && !isOld ? { ...next, ...shown } : next;
  return isShort ? { ...paid, status: "open", reason: null } : paid;
}

/**
 * Opens a channel whose payer has withdrawn. Charges that the deposits no longer cover are lost.
 * @returns undefined while deposits are undecided, or calls that the deposits do not cover have not ended
 */
function withdrawn(row: ChannelRow, now: number): ChannelRow | undefined {
  const uncovered = max(0n, standing(row) - BigInt(row.balance));
  if (uncovered > 0n && (row.deposits > 0 || row.final !== row.charged)) return undefined;
  const lost = String(BigInt(row.lost) + uncovered);
  return withDue({ ...row, lost, status: "open", reason: null, withdraw_at: null }, now);
}

const SHORT = "the chain has less than the deposits that were counted";

/** Time after which a deposit that the chain does not show was withdrawn, and not taken away by a reorganisation. */
const SHORT_MS = 86_400_000;

/** Reason of channels that a restore stopped, because the store does not know what happened after the copy was made. */
export const RESTORED = "the store was restored from a copy";

/** Returns a channel that a restore stopped, updated by its chain; undefined for another channel. */
export function resumed(
  row: ChannelRow | undefined,
  chain: SeenChannel,
  now: number,
): ChannelRow | undefined {
  if (row?.status !== "stopped" || row.reason !== RESTORED) return undefined;
  return seen({ ...row, status: "open", reason: null }, chain, now);
}

function stopped(row: ChannelRow, reason: string): ChannelRow {
  return { ...row, status: "stopped", reason };
}

/**
 * Returns the sum that can be claimed: the final charges that the deposits in a confirmed block cover. A deposit that a
 * reorganisation has moved to a later block covers nothing until that block is confirmed. While the payer withdraws, such a
 * deposit is used at once, because a claim that waits might come too late.
 */
export function claimable(
  row: Pick<ChannelRow, "final" | "lost" | "status">,
  { latest, confirmed }: { readonly latest: ChannelState; readonly confirmed: ChannelState },
): bigint {
  const newest = min(claimGoal(row), BigInt(latest.balance));
  return row.status === "withdrawing" ? newest : min(newest, BigInt(confirmed.balance));
}
