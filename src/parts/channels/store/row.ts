import type { Rows, Table } from "../../../store/rows.ts";

/** Name of the transfer method, in stored payments. */
export const CHANNEL_METHOD = "channel";

/** Name of the transfer method of deposits by Permit2, in offers of x402 and in the configuration. */
export const PERMIT2_DEPOSITS = "permit2";

/** Name of the promise to charge back what a job that fails cost. */
export const RETURNED = "refund";

/**
 * - `open`: takes vouchers.
 * - `refunding`: what is not charged is being paid back.
 * - `withdrawing`: the payer withdraws what is not claimed.
 * - `stopped`: the chain contradicts the sums, or the store was restored from a copy. What is due is claimed all the same.
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
  /** JobCall of that voucher; null if no voucher stands, or its charge is final. */
  base_call: number | null;
  /** The highest voucher whose charge is final. */
  kept: string;
  /** The highest voucher that was taken, with its signature. It never falls. */
  signed: string;
  signature: string;
  /** Deposits that count, less what was paid back. */
  balance: string;
  /** Block in which the chain showed this balance. Deposits in later blocks are added to it. */
  balance_block: number;
  /** Sum of the calls that were sold, less what was given back for calls that failed. */
  charged: string;
  /** Sum of the charges whose calls have ended. */
  final: string;
  /** Sum of the claims, as the chain shows it. */
  claimed: string;
  /** Sum of the final charges that cannot be claimed, because the payer has withdrawn the money. */
  lost: string;
  /** Highest sum that was asked for in a claim. */
  asked: string;
  /** Deposits that are not decided. */
  deposits: number;
  /** Time from which final charges wait to be claimed, Unix milliseconds. */
  due_since: number | null;
  /** 1 from the operator's wish to claim it until nothing is due. */
  claim_soon: 0 | 1;
  /** Time at which the payer asked for a withdrawal, Unix seconds. */
  withdraw_at: number | null;
  /** JSON of the last {@link ChannelRefund}. */
  refund: string | null;
  created_at: number;
  updated_at: number;
}

/** Fields of a channel that is opened, and its highest voucher. */
export type OpenedChannel = Pick<
  ChannelRow,
  "channel_id" | "network" | "asset" | "symbol" | "decimals" | "config" | "signed" | "signature"
>;

/** A payment of one call from a channel. */
export interface ChargeRow {
  call_id: number;
  channel_id: string;
  /** All that its voucher pays from the channel. */
  cumulative: string;
  amount: string;
  /** Part of the amount that its call is known to have used. The rest is charged back. */
  used: string;
  /** Deposit that came with the voucher and that the balance does not have yet; 0 if there is none. */
  deposit: string;
  on_failure: string;
  /** 1 for a call that is charged what it uses. */
  charges_back: 0 | 1;
  /**
   * `undecided`: its deposit is not decided. `open`: its call has not ended. `kept`: its call has. `asked`: it failed, and the operator
   * decides. `returned`: it is charged back.
   */
  state: "undecided" | "open" | "kept" | "asked" | "returned";
  /** 1 once the sums of the channel have its end. */
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

/** Returns a row with its columns alone: drivers add fields of their own. */
export function plainRow<Row>(
  { columns }: { readonly columns: readonly (keyof Row & string)[] },
  row: unknown,
): Row {
  const values = row as Row;
  // Without entries, from which V8 takes ten times as long to make an object that is copied faster as well.
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
