import type { PaymentRow } from "../../../store/payment-row.ts";
import { AMOUNT_MISMATCH, BUSY, NOT_FOUND } from "./refusal-texts.ts";
import type { ChannelRow, ChargeRow, OpenedChannel } from "./row.ts";

/** Voucher that a client offers for a call. Amounts are token units. */
export interface NewVoucher {
  readonly channelId: string;
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  readonly decimals: number;
  /** JSON of the channel's configuration. */
  readonly config: string;
  readonly cumulative: bigint;
  readonly signature: string;
  /** Price of the call. */
  readonly amount: bigint;
  /** 0 for a voucher alone. */
  readonly deposit: bigint;
}

/** Reason why a voucher does not pay a call, with the sums from which the payer signs the next voucher. */
export interface ChannelRefusal {
  /** Error code of x402. */
  readonly error: string;
  readonly channel:
    | (Pick<ChannelRow, "base" | "balance" | "claimed" | "signed" | "signature"> & {
        readonly channelId: string;
      })
    | undefined;
}

/** Makes the refusal from which x402's clients sign the next voucher of a channel. */
export function mismatchOf(row: ChannelRow): ChannelRefusal {
  const { channel_id: channelId, base, balance, claimed, signed, signature } = row;
  return { error: AMOUNT_MISMATCH, channel: { channelId, base, balance, claimed, signed, signature } };
}

/** Decides whether a voucher can pay a call. @returns undefined if it can */
export function refusalOf(row: ChannelRow | undefined, voucher: NewVoucher): ChannelRefusal | undefined {
  const { amount, cumulative, deposit } = voucher;
  if (row === undefined) {
    if (deposit === 0n) return { error: NOT_FOUND, channel: undefined };
    const isFirst = cumulative === amount && amount <= deposit;
    return isFirst ? undefined : { error: AMOUNT_MISMATCH, channel: undefined };
  }
  const { status, base, balance } = row;
  // A refund ends soon, so the client may sign again.
  const { [status]: busy } = BUSY;
  if (busy !== undefined) return { error: busy, channel: undefined };
  const isNext = status === "open" && cumulative === BigInt(base) + amount;
  const isCovered = standing(row) + amount <= BigInt(balance) + deposit;
  return isNext && isCovered ? undefined : mismatchOf(row);
}

/** Returns a new channel without calls and deposits. */
export function newChannel(opened: OpenedChannel, now: number): ChannelRow {
  const sums = {
    base: "0",
    kept: "0",
    balance: "0",
    charged: "0",
    final: "0",
    claimed: "0",
    lost: "0",
    asked: "0",
  };
  return {
    ...{ ...opened, ...sums, status: "open", reason: null, base_call: null, balance_block: 0, deposits: 0 },
    ...{ due_since: null, claim_soon: 0, withdraw_at: null, refund: null, created_at: now, updated_at: now },
  };
}

/** Returns the channel with a voucher that {@link refusalOf} does not refuse. */
export function taken(
  row: ChannelRow | undefined,
  voucher: NewVoucher,
  callId: number,
  now: number,
): ChannelRow {
  const { channelId: channel_id, network, asset, symbol, cumulative, signature, deposit } = voucher;
  const { decimals, config } = voucher;
  const opened = { channel_id, network, asset, symbol, decimals, config, signed: "0", signature };
  const before = row ?? newChannel(opened, now);
  const isHighest = cumulative >= BigInt(before.signed);
  return {
    ...before,
    base: String(cumulative),
    base_call: callId,
    ...(isHighest && { signed: String(cumulative), signature }),
    charged: sum(before.charged, voucher.amount),
    deposits: before.deposits + (deposit > 0n ? 1 : 0),
    updated_at: now,
  };
}

const STATE_BY_PROMISE = { keep: "kept", ask: "asked" } as const;

/**
 * Returns a charge after the failure of its call; undefined if the failure changes nothing.
 * @param on_failure the payment's promise to its buyer
 */
export function failed(charge: ChargeRow, on_failure = charge.on_failure): ChargeRow | undefined {
  // A call runs only after its deposit was made, even if the deposit is not counted yet.
  if (charge.state !== "open" && charge.state !== "undecided") return undefined;
  return {
    ...charge,
    on_failure,
    state: STATE_BY_PROMISE[on_failure as keyof typeof STATE_BY_PROMISE] ?? "returned",
  };
}

/**
 * Returns the charge of a call that succeeded; undefined if that changes nothing.
 * @param used token units; a call that has used nothing is charged back
 */
export function succeeded(charge: ChargeRow, used = charge.amount): ChargeRow | undefined {
  if (charge.state !== "open" && charge.state !== "undecided") return undefined;
  return { ...charge, used, state: used === "0" ? "returned" : "kept" };
}

/** Returns the sum that the payer of an ended call is owed: the unused part of a charge that is already final. */
export function unusedOf({ state, used: final }: ChargeRow, used: string): bigint {
  return state === "kept" ? max(0n, BigInt(final) - BigInt(used)) : 0n;
}

/** Returns a charge about which the operator decided; undefined if the charge does not wait for the operator. */
export function decided(charge: ChargeRow, isReturned: boolean): ChargeRow | undefined {
  return charge.state === "asked" ? { ...charge, state: isReturned ? "returned" : "kept" } : undefined;
}

/** Returns the charge of a call that runs again; undefined if that changes nothing. */
export function revived(charge: ChargeRow): ChargeRow | undefined {
  return charge.state === "asked" ? { ...charge, state: "open" } : undefined;
}

/** Reports whether a charge can be charged back, because it is not final. */
export function canReturn({ state }: ChargeRow): boolean {
  return state === "undecided" || state === "open" || state === "asked";
}

/** State of a payment, and the block of its transaction. */
export type Decided = Readonly<Pick<PaymentRow, "state" | "block_number">>;

/** Finds the payment of a call. */
type PaymentOf = (callId: number) => Decided | undefined;

/** A channel and some of its charges. */
interface Sums {
  readonly row: ChannelRow;
  readonly charges: readonly ChargeRow[];
}

/**
 * Adds the outcomes of charges to the sums of a channel: decided deposits, and ended calls.
 * @param next the highest charge below the base that is neither charged back nor final, if any
 */
export function counted(
  row: ChannelRow,
  charges: readonly ChargeRow[],
  next: ChargeRow | undefined,
  paymentOf: PaymentOf,
  now: number,
): Sums {
  let sums: Sums = { row, charges: [] };
  const isBase = ({ call_id }: ChargeRow) => call_id === row.base_call;
  // The charge of the base comes last, because the other charges decide where the base falls to.
  for (const charge of [...charges.filter((one) => !isBase(one)), ...charges.filter(isBase)]) {
    const one = countOne(sums.row, charge, paymentOf);
    if (one === undefined) continue;
    const isFall = isBase(charge) && one.charge.state === "returned";
    const below = sums.charges.find(({ call_id }) => call_id === next?.call_id) ?? next;
    // Since `next` was read, it was charged back or became the base, so another charge is the next.
    if (isFall && (below?.state === "returned" || below?.call_id === charge.call_id)) continue;
    const then = isFall ? fallen(one.row, below) : one.row;
    sums = { row: { ...then, updated_at: now }, charges: [...sums.charges, one.charge] };
  }
  return { ...sums, row: withDue(sums.row, now) };
}

/** Returns a channel whose base was charged back. A voucher above the new base can be used again. */
function fallen(row: ChannelRow, next: ChargeRow | undefined): ChannelRow {
  return next !== undefined && BigInt(next.cumulative) > BigInt(row.kept)
    ? { ...row, base: next.cumulative, base_call: next.call_id }
    : { ...row, base: row.kept, base_call: null };
}

/**
 * Makes pending charges final, because their payer's withdrawal is about to end. The calls continue, but a call that fails
 * later is not charged back in the channel.
 */
export function madeFinal(row: ChannelRow, charges: readonly ChargeRow[], now: number): Sums | undefined {
  if (row.status !== "withdrawing") return undefined;
  const pending = charges.filter(
    ({ state, deposit }) => deposit === "0" && (state === "open" || state === "asked"),
  );
  return counted(
    row,
    pending.map((charge) => ({ ...charge, state: "kept" as const })),
    undefined,
    () => undefined,
    now,
  );
}

function countOne(
  row: ChannelRow,
  charge: ChargeRow,
  paymentOf: PaymentOf,
): { readonly row: ChannelRow; readonly charge: ChargeRow } | undefined {
  if (charge.channel_id !== row.channel_id || charge.is_counted === 1) return undefined;
  const { call_id, amount, used, deposit, state } = charge;
  const payment = deposit === "0" ? undefined : paymentOf(call_id);
  if (state === "undecided" && payment?.state === "failed") {
    const without = { ...row, deposits: row.deposits - 1, charged: sum(row.charged, -BigInt(amount)) };
    return { row: without, charge: { ...charge, state: "returned", deposit: "0", is_counted: 1 } };
  }
  if (state === "undecided" && payment?.state !== "settled") return undefined;
  const covered = deposit === "0" ? row : withDeposit(row, charge, payment);
  if (covered === undefined) return undefined;
  switch (state) {
    case "undecided":
      return { row: covered, charge: { ...charge, state: "open", deposit: "0" } };
    case "open":
    case "asked":
      return deposit === "0" ? undefined : { row: covered, charge: { ...charge, deposit: "0" } };
    case "kept":
      return {
        row: {
          ...{ ...covered, final: sum(row.final, BigInt(used)) },
          charged: sum(row.charged, BigInt(used) - BigInt(amount)),
          kept: String(max(BigInt(row.kept), BigInt(charge.cumulative))),
        },
        charge: { ...charge, state, deposit: "0", is_counted: 1 },
      };
    case "returned":
      return {
        row: { ...covered, charged: sum(row.charged, -BigInt(amount)) },
        charge: { ...charge, deposit: "0", is_counted: 1 },
      };
  }
}

/**
 * Returns a channel with a deposit that was made. The balance includes the deposit if the chain showed the balance in the
 * deposit's block or in a later block.
 * @returns undefined for a deposit that only the operator confirmed, until the chain shows a balance that covers the charges
 */
function withDeposit(
  row: ChannelRow,
  { state, deposit }: ChargeRow,
  payment: Decided | undefined,
): ChannelRow | undefined {
  const deposits = row.deposits - 1;
  const block = payment?.block_number ?? undefined;
  if (block !== undefined) {
    const isNew = Number(block) > row.balance_block;
    return { ...row, deposits, balance: isNew ? sum(row.balance, BigInt(deposit)) : row.balance };
  }
  const isCovered = state === "returned" || standing(row) <= BigInt(row.balance);
  return isCovered ? { ...row, deposits } : undefined;
}

/** Returns the channel with the sum that a claim requests. @returns undefined if nothing is due */
export function claiming(row: ChannelRow | undefined, now: number): ChannelRow | undefined {
  if (row === undefined || dueOf(row) === 0n) return undefined;
  return { ...row, asked: String(max(BigInt(row.asked), claimGoal(row))), updated_at: now };
}

/** Returns a channel that the operator wants to be claimed at once. @returns undefined if nothing is due */
export function claimedSoon(row: ChannelRow | undefined, now: number): ChannelRow | undefined {
  if (row === undefined || row.due_since === null) return undefined;
  return { ...row, claim_soon: 1, updated_at: now };
}

/**
 * Checks the invariants of a channel's sums.
 * @returns the sum that is wrong; undefined if all are right
 */
export function brokenSum({
  claimed,
  lost,
  asked,
  final,
  charged,
  kept,
  base,
  signed,
  balance,
  deposits,
}: ChannelRow): string | undefined {
  if (BigInt(claimed) + BigInt(lost) > BigInt(final)) return "claimed + lost > final";
  const sums = Object.entries({ claimed, asked, final, charged, base, signed });
  for (const [at, [name, sum]] of sums.entries()) {
    const [more, limit] = sums[at + 1] ?? [name, sum];
    if (BigInt(sum) > BigInt(limit)) return `${name} > ${more}`;
  }
  if (BigInt(final) > BigInt(kept)) return "final > kept";
  if (BigInt(kept) > BigInt(base)) return "kept > base";
  return standing({ charged, lost }) > BigInt(balance) && deposits === 0
    ? "charged - lost > deposited"
    : undefined;
}

/** Returns the charges that the deposits have to cover, which are all charges except lost charges. */
export function standing({ charged, lost }: Pick<ChannelRow, "charged" | "lost">): bigint {
  return BigInt(charged) - BigInt(lost);
}

/** Returns the sum of all claims of a channel once nothing is due. */
export function claimGoal({ final, lost }: Pick<ChannelRow, "final" | "lost">): bigint {
  return BigInt(final) - BigInt(lost);
}

/** Returns the final charges that are neither claimed nor lost. */
export function dueOf(row: Pick<ChannelRow, "final" | "claimed" | "lost">): bigint {
  return max(0n, claimGoal(row) - BigInt(row.claimed));
}

/** Sets the time since which charges wait to be claimed. */
export function withDue(row: ChannelRow, now: number): ChannelRow {
  const isDue = dueOf(row) > 0n;
  return { ...row, due_since: isDue ? (row.due_since ?? now) : null, claim_soon: isDue ? row.claim_soon : 0 };
}

function sum(amount: string, more: bigint): string {
  return String(BigInt(amount) + more);
}

export const max = (one: bigint, other: bigint) => (one > other ? one : other);

export const min = (one: bigint, other: bigint) => (one < other ? one : other);
