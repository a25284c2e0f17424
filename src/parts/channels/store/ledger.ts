import type { PaymentRow } from "../../../store/payment-row.ts";
import type { SeenChannel } from "./chain-rules.ts";
import type { OperatedChannels } from "./operator-ledger.ts";
import type { AskedRefund, ChannelRefund, RefundDecision } from "./refund-rules.ts";
import type { ChannelRow, ChargeRow, OpenedChannel } from "./row.ts";

/** Charges whose end the sums of a channel do not have yet. */
export interface UncountedCharges {
  readonly channelId: string;
  readonly callIds: readonly number[];
  /** The highest charge below the channel's base that was not charged back and is not counted. */
  readonly next: number | undefined;
}

/** Place of a channel in the order in which charges wait to be claimed. */
export interface DuePlace {
  readonly dueSince: number;
  readonly channelId: string;
}

/** Fields by which the journal identifies a payment, and its payload. */
export type VoucherPayment = Pick<PaymentRow, "nonce" | "fingerprint" | "payload">;

/**
 * Payment channels, and the calls that were paid from channels. The write that begins a payment adds its voucher and its
 * charge.
 */
export interface ChannelLedger extends OperatedChannels {
  findChannel(channelId: string): Promise<ChannelRow | undefined>;
  findCharge(callId: number): Promise<ChargeRow | undefined>;
  /** Finds the fields by which the journal identifies the payment of a call. */
  findPaymentOfCall(callId: number): Promise<Pick<PaymentRow, "nonce" | "fingerprint"> | undefined>;
  /** Finds the payment by a voucher that came with a deposit. */
  findPaymentOfDeposit(channelId: string, cumulative: string): Promise<VoucherPayment | undefined>;
  /** Finds the payments by a voucher that were not charged back. */
  findPaymentsOfVoucher(channelId: string, cumulative: string): Promise<readonly VoucherPayment[]>;
  /** Counts the calls bought with a voucher that were charged back. */
  countReturned(channelId: string, cumulative: string): Promise<number>;
  /** Returns channels of a network in the order of their ids, to compare the channels with their chain. */
  listChannels(
    network: string,
    page: { readonly after: string; readonly limit: number },
  ): Promise<readonly ChannelRow[]>;
  /** Returns channels of a network with charges that wait to be claimed, the oldest first. */
  listDueChannels(
    network: string,
    page: {
      /** True for only the channels whose claims do not wait for more charges. */
      readonly isUrgent: boolean;
      readonly after: DuePlace | undefined;
      readonly limit: number;
    },
  ): Promise<readonly ChannelRow[]>;
  /** Returns channels of a network whose payers are being paid back. */
  listRefunding(network: string, limit: number): Promise<readonly ChannelRow[]>;
  /** Returns charges of ended calls, and charges whose deposits may be decided, by channel and call. */
  listUncounted(of: {
    /** Channel of the charges. Default: all channels. */
    readonly channelId?: string;
    /** Returns only charges after this charge in the order of channels and calls. */
    readonly after?: { readonly channelId: string; readonly callId: number } | undefined;
    readonly limit: number;
  }): Promise<readonly UncountedCharges[]>;
  /** Adds the outcomes of charges to the sums of a channel. */
  countCharges(
    channelId: string,
    charges: Pick<UncountedCharges, "callIds" | "next">,
  ): Promise<ChannelRow | undefined>;
  /** Makes pending charges final if their payer withdraws. @returns the channel after that */
  makeFinal(channelId: string, callIds: readonly number[]): Promise<ChannelRow | undefined>;
  /** Records the sum that a claim is about to request. @returns the channels that have something to claim */
  askClaims(channelIds: readonly string[]): Promise<readonly ChannelRow[]>;
  /** Updates a channel by the state on its chain. @returns the updated channel */
  seeChannel(channelId: string, chain: SeenChannel): Promise<ChannelRow | undefined>;
  /** Adds a channel that the chain has and the store lacks. @returns the stored channel; undefined if another store has it */
  adoptChannel(opened: OpenedChannel, chain: SeenChannel): Promise<ChannelRow | undefined>;
  /** Begins a refund, or finds the refund in progress. */
  beginChannelRefund(channelId: string, asked: AskedRefund): Promise<RefundDecision>;
  /** Finds the newest refund that a payer's request has begun. */
  findChannelRefund(channelId: string, request: string): Promise<ChannelRefund | undefined>;
  /** Ends a refund if the chain shows it. @returns the channel, if the refund has ended */
  endChannelRefund(
    channelId: string,
    chain: SeenChannel,
    /** Hash of the transaction that paid the refund, if it is known. */
    transaction: string | undefined,
    /** Request that the refund is for; undefined for a refund by the operator. */
    request?: string,
  ): Promise<ChannelRow | undefined>;
}
