import type { SeenChannel } from "./chain-rules.ts";
import type { AskedRefund, RefundDecision } from "./refund-rules.ts";
import type { ChannelRow, ChannelStatus, ChargeRow, DecisionRow } from "./row.ts";

/** Name and note of the operator who decides about channels. */
export interface Signature {
  readonly by: string;
  readonly note: string;
}

/** Place in the list of channels, newest first. */
export interface ChannelPlace {
  readonly createdAt: number;
  readonly channelId: string;
}

/** Channels as operators see them, and what operators have done. */
export interface OperatedChannels {
  /** Returns channels, newest first. */
  listChannelsByAge(of: {
    readonly status: ChannelStatus | undefined;
    /** Returns only channels after this place in the list. */
    readonly after: ChannelPlace | undefined;
    readonly limit: number;
  }): Promise<readonly ChannelRow[]>;
  /** Returns charges of a channel whose outcome is not in its sums yet, newest first. */
  listOpenCharges(channelId: string, limit: number): Promise<readonly ChargeRow[]>;
  /** Returns what operators decided about a channel, newest first. */
  listChannelDecisions(channelId: string, limit: number): Promise<readonly DecisionRow[]>;
  /** Returns the IDs of channels with unclaimed charges, in their order. */
  listDueIds(page: { readonly after: string; readonly limit: number }): Promise<readonly string[]>;
  /** Counts the channels that have something to claim or to pay back. */
  countOwedChannels(): Promise<number>;
  /** Marks channels to be claimed in the next round. @returns the channels with unclaimed charges */
  claimSoon(channelIds: readonly string[], signature: Signature): Promise<readonly ChannelRow[]>;
  /** Begins a refund that the operator requests. */
  refundByOperator(
    channelId: string,
    chain: AskedRefund["chain"],
    signature: Signature,
  ): Promise<RefundDecision>;
  /**
   * Lets channels that a restore stopped accept vouchers again, unless their chains contradict them. @returns the channels
   * after that
   */
  resumeChannels(
    channels: readonly { readonly channelId: string; readonly chain: SeenChannel }[],
    signature: Signature,
  ): Promise<readonly ChannelRow[]>;
}
