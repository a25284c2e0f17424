import type { Rows, Table } from "../../../store/rows.ts";

/** Name of the transfer method, in stored payments. */
export const CHANNEL_METHOD = "channel";

/** Name of the transfer method of deposits by Permit2, in offers of x402 and in the configuration. */
export const PERMIT2_DEPOSITS = "permit2";

/** Name of the promise to charge back the price of a job that fails. */
export const RETURNED = "refund";

/**
 * - `open`: takes vouchers.
 * - `refunding`: a refund of uncharged money is in progress.
 * - `withdrawing`: the payer withdraws the unclaimed money.
 * - `stopped`: the chain contradicts the sums, or the store was restored from a copy. Charges that are due are still claimed.
 */
export type ChannelStatus = "open" | "refunding" | "withdrawing" | "stopped";

/** A channel. Amounts are token units in decimal. */
export interface ChannelRow {
  channel_id: string;
  network: string;
  asset: string;
  symbol: string;
  /** Decimals of the token. */
  decimals: number;
  /** JSON of the channel's configuration. */
  config: string;
  status: ChannelStatus;
  /** Reason why the channel is stopped, for the operator. */
  reason: string | null;
  /** The highest voucher whose call was not charged back. The next voucher adds to it. */
  base: string;
  /** JobCall of the voucher in `base`; null if that voucher's charge is final, or if every voucher was charged back. */
  base_call: number | null;
  /** The highest voucher whose charge is final. */
  kept: string;
  /** Highest accepted voucher, with its signature. It never falls. */
  signed: string;
  signature: string;
  /** Counted deposits, less refunds. */
  balance: string;
  /** Block in which the chain showed the balance. Deposits in later blocks are added to the balance. */
  balance_block: number;
  /** Sum of the sold calls, less the charges that were charged back. */
  charged: string;
  /** Sum of the charges whose calls have ended. */
  final: string;
  /** Sum of the claims on the chain. */
  claimed: string;
  /** Sum of the final charges that cannot be claimed, because the payer has withdrawn the money. */
  lost: string;
  /** Highest sum that a claim has requested. */
  asked: string;
  /** Sum of undecided deposits. */
  deposits: number;
  /** Time from which final charges wait to be claimed, Unix milliseconds. */
  due_since: number | null;
  /** 1 from the operator's request to claim the channel until nothing is due. */
  claim_soon: 0 | 1;
  /** Time at which the payer began a withdrawal, Unix seconds. */
  withdraw_at: number | null;
  /** JSON of the last {@link ChannelRefund}. */
  refund: string | null;
  created_at: number;
  updated_at: number;
}

/** Fields that identify a newly opened channel, and its highest voucher. */
export type OpenedChannel = Pick<
  ChannelRow,
  "channel_id" | "network" | "asset" | "symbol" | "decimals" | "config" | "signed" | "signature"
>;

/** A payment of one call from a channel. */
export interface ChargeRow {
  call_id: number;
  channel_id: string;
  /** Amount that the voucher pays from the channel. */
  cumulative: string;
  amount: string;
  /** Part of the amount that its call is known to have used. The rest is charged back. */
  used: string;
  /** Deposit that came with the voucher and that the balance does not have yet; 0 if there is none. */
  deposit: string;
  on_failure: string;
  /** 1 for a metered call. */
  charges_back: 0 | 1;
  /**
   * `undecided`: the deposit is undecided. `open`: the call has not ended. `kept`: the call has ended, and the charge stays.
   * `asked`: the call failed, and the operator decides. `returned`: the charge is charged back.
   */
  state: "undecided" | "open" | "kept" | "asked" | "returned";
  /** 1 once the outcome is in the sums of the channel. */
  is_counted: 0 | 1;
  created_at: number;
}

export const CHANNELS_TABLE: Table<ChannelRow, "channel_id"> = {
  name: "channels",
  key: ["channel_id"],
  columns: [
    ...[
      "channel_id",
      "network",
      "asset",
      "symbol",
      "decimals",
      "config",
      "status",
      "reason",
      "base",
      "base_call",
    ],
    ...["kept", "signed", "signature"],
    ...["balance", "balance_block", "charged", "final", "claimed", "lost", "asked", "deposits", "due_since"],
    ...["claim_soon", "withdraw_at", "refund"],
    ...["created_at", "updated_at"],
  ] as (keyof ChannelRow)[],
};

export const CHARGES_TABLE: Table<ChargeRow, "call_id"> = {
  name: "channel_charges",
  key: ["call_id"],
  columns: [
    ...([
      "call_id",
      "channel_id",
      "cumulative",
      "amount",
      "used",
      "deposit",
      "on_failure",
      "charges_back",
    ] as const),
    ...(["state", "is_counted", "created_at"] as const),
  ],
};

/** Call that was bought by a voucher with a deposit. Payers who lost the answer may send the voucher without the deposit. */
export interface DepositRow {
  channel_id: string;
  cumulative: string;
  call_id: number;
}

export const DEPOSITS_TABLE: Table<DepositRow, "channel_id" | "cumulative"> = {
  name: "channel_deposits",
  key: ["channel_id", "cumulative"],
  columns: ["channel_id", "cumulative", "call_id"],
};

/** Newest refund of each request that payers have sent, so that a repeated request gets its first outcome. */
export interface RefundRow {
  channel_id: string;
  request: string;
  /** JSON of a {@link ChannelRefund}. */
  refund: string;
}

export const REFUNDS_TABLE: Table<RefundRow, "channel_id" | "request"> = {
  name: "channel_refunds",
  key: ["channel_id", "request"],
  columns: ["channel_id", "request", "refund"],
};

/** Decision of an operator about a channel. */
export interface DecisionRow {
  id: number;
  channel_id: string;
  action: "claim" | "refund" | "resume";
  by_name: string;
  note: string;
  /** Unix milliseconds. */
  at: number;
}

export const DECISIONS_TABLE: Table<DecisionRow, "id"> = {
  name: "channel_decisions",
  key: ["id"],
  columns: ["channel_id", "action", "by_name", "note", "at"],
};

/** Returns a row with only its columns, because drivers add fields of their own. */
export function plainRow<Row>(
  { columns }: { readonly columns: readonly (keyof Row & string)[] },
  row: unknown,
): Row {
  const values = row as Row;
  // A loop, because V8 takes ten times as long for `Object.fromEntries`.
  const plain = {} as Row;
  for (const column of columns) plain[column] = values[column];
  return plain;
}

/** Finds a channel among the rows of a commit. */
export const findChannel = (rows: Pick<Rows, "find">, channelId: string) =>
  toChannel(rows.find(CHANNELS_TABLE, { channel_id: channelId }));

/** Finds the charge of a call among the rows of a commit. */
export const findCharge = (rows: Pick<Rows, "find">, callId: number) =>
  toCharge(rows.find(CHARGES_TABLE, { call_id: callId }));

/** Reads the row of a channel. */
export function toChannel(row: unknown): ChannelRow | undefined {
  return row === undefined ? undefined : plainRow<ChannelRow>(CHANNELS_TABLE, row);
}

/** Reads the row of a charge. */
export function toCharge(row: unknown): ChargeRow | undefined {
  return row === undefined ? undefined : plainRow<ChargeRow>(CHARGES_TABLE, row);
}
