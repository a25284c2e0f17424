import { oneSpelling } from "../../../core/payment.ts";
import { type ListDialect, type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { AnyModule, BeginGate, Commit, CountQuery, StoreModule } from "../../../store/module.ts";
import type { PaymentRow } from "../../../store/payment-row.ts";
import { keyIn, type OldRows } from "../../../store/rows.ts";
import { adopted, RESTORED, seen } from "./chain-rules.ts";
import { FIRST_OUTCOMES, findRefund, refundKeys, writeRefund } from "./first-outcomes.ts";
import type { ChannelLedger, UncountedCharges } from "./ledger.ts";
import { OPERATOR_LOOKUPS, OPERATOR_STEPS, writeChannel } from "./operator-steps.ts";
import { REACTIONS } from "./reactions.ts";
import { refundDecision, refundEnded, refundOf } from "./refund-rules.ts";
import {
  CHANNEL_METHOD,
  CHANNELS_TABLE,
  CHARGES_TABLE,
  type ChannelRow,
  type ChargeRow,
  DEPOSITS_TABLE,
  findChannel,
  findCharge,
  toChannel,
  toCharge,
} from "./row.ts";
import { canReturn, claiming, counted, madeFinal, refusalOf } from "./rules.ts";
import { channelsSchema, IS_ENDED, IS_URGENT } from "./schema.ts";
import { SHOWN_CHARGE } from "./shown-charge.ts";
import { type CountedSum, countChannels, toChannelSums } from "./totals.ts";
import { voucherOf } from "./voucher.ts";

/** Time for which the charge of a call that succeeded is kept. */
const KEPT_MS = 86_400_000;
const OLD: OldRows = {
  table: CHARGES_TABLE.name,
  where: (_dialect, before) => `is_counted = 1 AND state = 'kept' AND created_at <= ${before}`,
  limit: 20,
};

const channelKey = (channelId: string) => keyIn(CHANNELS_TABLE, { channel_id: channelId });
const chargeKey = (callId: number) => keyIn(CHARGES_TABLE, { call_id: callId });

/** Lets a payment begin if its voucher is the next voucher of its channel, and the deposits cover the price. */
const GATE: BeginGate = {
  transferMethod: CHANNEL_METHOD,
  keys(intent) {
    const { channelId: channel_id, cumulative, deposit } = voucherOf(intent);
    const depositKey = keyIn(DEPOSITS_TABLE, { channel_id, cumulative: String(cumulative) });
    return [channelKey(channel_id), ...(deposit > 0n ? [depositKey] : [])];
  },
  refusal(intent, rows) {
    const voucher = voucherOf(intent);
    const refusal = refusalOf(findChannel(rows, voucher.channelId), voucher);
    return refusal && JSON.stringify(refusal);
  },
  givesBack(callId, rows) {
    const charge = findCharge(rows, callId);
    return charge !== undefined && canReturn(charge);
  },
};

/** Records the amount of a sale that was charged back. A call whose deposit was not made is not a sale. */
function noteReturned(commit: Commit, { call_id, state, amount: all, used }: ChargeRow, at: number): void {
  const amount = state === "returned" ? all : String(BigInt(all) - BigInt(used));
  if (amount === "0") return;
  const payment = commit.payment(call_id);
  if (payment?.state !== "settled") return;
  const { network, pay_to: account, payer: counterparty } = payment;
  const moved = { network, amount, account: oneSpelling(account), counterparty };
  const sent = { ...moved, as: "refund", at, payment, transaction_hash: null, block_number: null };
  commit.note({ kind: "moneySent", sent });
}

/** Records final charges that are lost. @param amount token units */
function noteLost(commit: Commit, amount: bigint, row: ChannelRow): void {
  if (amount <= 0n) return;
  const { network, asset, symbol, decimals, config, updated_at: at } = row;
  const { receiver, payer: counterparty } = JSON.parse(config) as {
    readonly receiver?: string;
    readonly payer?: string;
  };
  const account = receiver === undefined ? null : oneSpelling(receiver);
  const moved = { network, amount: String(amount), account, counterparty: counterparty ?? null };
  const token = { asset, symbol, decimals };
  const sent = { ...moved, as: "loss", at, payment: undefined, token };
  commit.note({ kind: "moneySent", sent: { ...sent, transaction_hash: null, block_number: null } });
}

/** Writes a channel, and its change to the sums of its token. */
function change(commit: Commit, row: ChannelRow | undefined): ChannelRow | undefined {
  if (row !== undefined) writeChannel(commit, row);
  return row;
}

interface UncountedRow extends Pick<ChargeRow, "channel_id" | "call_id"> {
  readonly next_call: number | null;
}

const CHANNEL_COLUMNS = CHANNELS_TABLE.columns.join();

/** Counts waiting or dropped dead letters whose payers got the money back in their channels instead of by a refund. */
function countReturned({ schema, indexedBy }: ListDialect): CountQuery {
  const isReturned = (table: string) =>
    `EXISTS (SELECT 1 FROM ${schema}channel_charges AS charge
              WHERE charge.call_id = ${table}.call_id AND charge.state = 'returned' AND charge.on_failure = 'refund')`;
  const n = `(SELECT count(*) FROM ${schema}job_calls${indexedBy("job_calls_dead_groups")}
               WHERE state = 'dead' AND dead_group >= 'x402' AND ${isReturned("job_calls")})
           + (SELECT count(*) FROM ${schema}results WHERE state = 'failed' AND ${isReturned("results")})`;
  return { values: { n }, from: "" };
}

interface CountedChannels {
  readonly channels: readonly CountedSum[];
  readonly returned_in_channels: readonly { readonly n: number }[];
}

/** Calls that were charged back in channels. Counts of refunds subtract them from the sales that the seller keeps. */
const COUNTED: NonNullable<AnyModule["counted"]> = {
  queries: { returned_in_channels: countReturned, channels: countChannels },
  totals: ({ returned_in_channels: [returned], channels }: CountedChannels, { accounted, sums }) => ({
    accounted: accounted + (returned?.n ?? 0),
    sums: { ...sums, channels: toChannelSums(channels) },
  }),
};

/** Payment channels. */
export const CHANNELS: StoreModule<ChannelLedger> = {
  schema: { table: CHANNELS_TABLE.name, sql: channelsSchema },
  begins: GATE,
  on: REACTIONS,
  keysOfCall: (callId) => [chargeKey(callId)],
  // A call whose charge was returned cannot be retried, because its payer already has the money back.
  canRetry: (callId, rows) => rows.find(CHARGES_TABLE, { call_id: callId })?.state !== "returned",
  counted: COUNTED,
  shown: SHOWN_CHARGE,
  keeps: [
    {
      table: "payments",
      while: ({ schema }, row) =>
        `EXISTS (SELECT 1 FROM ${schema}channel_charges AS charge WHERE charge.call_id = ${row}.call_id AND is_counted = 0)`,
    },
  ],
  // Refunds are kept with their channels, which are never forgotten: a repeated request whose refund is not known would be paid again.
  forgottenWithPayments: [
    {
      // The calls charged back above the base show how often the next voucher was already used.
      table: CHARGES_TABLE.name,
      if: ({ schema }, row) =>
        `${row}.state = 'returned' AND EXISTS (SELECT 1 FROM ${schema}channels AS channel WHERE channel.channel_id = ${row}.channel_id
           AND (length(${row}.cumulative), ${row}.cumulative) <= (length(channel.base), channel.base))`,
    },
    { table: DEPOSITS_TABLE.name, if: () => "TRUE" },
  ],
  // A restored copy lacks the vouchers that were accepted after the copy was made, and would accept them again.
  afterCopy: `UPDATE channels SET status = 'stopped', reason = '${RESTORED}';
    UPDATE channel_sums SET open = '0', refunding = '0', withdrawing = '0',
      stopped = CAST(CAST(open AS INTEGER) + CAST(refunding AS INTEGER) + CAST(withdrawing AS INTEGER) + CAST(stopped AS INTEGER) AS TEXT);`,
  forOperator: ["listChannelsByAge", "listOpenCharges", "listChannelDecisions"],

  steps: {
    ...OPERATOR_STEPS,

    countCharges: {
      keys: (channelId, { callIds, next }) => [
        channelKey(channelId),
        ...[...callIds, ...(next === undefined ? [] : [next])].map(chargeKey),
      ],
      callIds: (_channelId, { callIds }) => callIds,
      run(commit, now, channelId, { callIds, next: nextCall }) {
        const row = findChannel(commit.rows, channelId);
        if (row === undefined) return undefined;
        const charges = [...new Set(callIds)].flatMap((callId) => findCharge(commit.rows, callId) ?? []);
        const next = nextCall === undefined ? undefined : findCharge(commit.rows, nextCall);
        const sums = counted(row, charges, next, (callId) => commit.payment(callId), now);
        for (const charge of sums.charges) {
          commit.rows.put(CHARGES_TABLE, charge);
          if (charge.is_counted === 1) noteReturned(commit, charge, now);
        }
        commit.rows.forget(OLD, now - KEPT_MS);
        return change(commit, sums.row);
      },
    },

    makeFinal: {
      keys: (channelId, callIds) => [channelKey(channelId), ...callIds.map(chargeKey)],
      run(commit, now, channelId, callIds) {
        const row = findChannel(commit.rows, channelId);
        const charges = [...new Set(callIds)].flatMap((callId) => findCharge(commit.rows, callId) ?? []);
        const sums = row && madeFinal(row, charges, now);
        for (const charge of sums?.charges ?? []) commit.rows.put(CHARGES_TABLE, charge);
        return change(commit, sums?.row);
      },
    },

    askClaims: {
      keys: (channelIds) => channelIds.map(channelKey),
      run: (commit, now, channelIds) =>
        channelIds.flatMap((id) => change(commit, claiming(findChannel(commit.rows, id), now)) ?? []),
    },

    seeChannel: {
      keys: (channelId) => [channelKey(channelId)],
      run(commit, now, channelId, chain) {
        const row = findChannel(commit.rows, channelId);
        const after = row && seen(row, chain, now);
        if (after !== undefined) noteLost(commit, BigInt(after.lost) - BigInt(row?.lost ?? 0), after);
        return change(commit, after);
      },
    },

    adoptChannel: {
      keys: ({ channel_id }) => [channelKey(channel_id)],
      run: (commit, now, opened, chain) =>
        findChannel(commit.rows, opened.channel_id) ?? change(commit, adopted(opened, chain, now)),
    },

    beginChannelRefund: {
      keys: (channelId, { request }) => [channelKey(channelId), ...refundKeys(channelId, request)],
      run(commit, now, channelId, asked) {
        const { request } = asked;
        const first = request === undefined ? undefined : findRefund(commit.rows, channelId, request);
        const decision = refundDecision(findChannel(commit.rows, channelId), asked, now, first);
        if (decision.kind === "refunding") writeRefund(commit, decision.row, request);
        return decision;
      },
    },

    endChannelRefund: {
      keys: (channelId, _chain, _transaction, request) => [
        channelKey(channelId),
        ...refundKeys(channelId, request),
      ],
      run(commit, now, channelId, chain, transaction, request) {
        const row = findChannel(commit.rows, channelId);
        // Since the caller read the channel, that refund may have ended, and another one may have begun.
        if (row === undefined || refundOf(row)?.request !== request) return undefined;
        const ended = refundEnded(row, chain, transaction, now);
        if (ended !== undefined) writeRefund(commit, ended, request);
        return ended;
      },
    },
  },

  lookups: {
    ...OPERATOR_LOOKUPS,
    ...FIRST_OUTCOMES,

    *findChannel({ dialect }, channelId): Lookup<ChannelRow | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${CHANNEL_COLUMNS} FROM ${dialect.schema}channels WHERE channel_id = ${add(channelId)}`;
      const [row] = yield { name: "find_channel", sql, values };
      return toChannel(row);
    },

    *findCharge({ dialect }, callId): Lookup<ChargeRow | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${CHARGES_TABLE.columns.join()} FROM ${dialect.schema}channel_charges WHERE call_id = ${add(callId)}`;
      const [row] = yield { name: "find_channel_charge", sql, values };
      return toCharge(row);
    },

    *findPaymentOfCall({ dialect }, callId): Lookup<Pick<PaymentRow, "nonce" | "fingerprint"> | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT nonce, fingerprint FROM ${dialect.schema}payments WHERE call_id = ${add(callId)}`;
      const [row] = yield { name: "find_payment_of_call", sql, values };
      return row as Pick<PaymentRow, "nonce" | "fingerprint"> | undefined;
    },

    *countReturned({ dialect }, channelId, cumulative): Lookup<number> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT count(*) AS n FROM ${dialect.schema}channel_charges${dialect.indexedBy("channel_charges_by_voucher")}
        WHERE channel_id = ${add(channelId)} AND cumulative = ${add(cumulative)} AND state = 'returned'`;
      const [row] = yield { name: "count_returned_charges", sql, values };
      return Number((row as { readonly n: unknown }).n);
    },

    *listChannels({ dialect }, network, { after, limit }): Lookup<readonly ChannelRow[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${CHANNEL_COLUMNS} FROM ${dialect.schema}channels${dialect.indexedBy("channels_by_network")}
        WHERE network = ${add(network)} AND channel_id > ${add(after)} ORDER BY channel_id LIMIT ${add(limit)}`;
      return (yield { name: "list_channels", sql, values }).flatMap((row) => toChannel(row) ?? []);
    },

    *listDueChannels({ dialect }, network, { isUrgent, after, limit }): Lookup<readonly ChannelRow[]> {
      const { values, add } = parameters(dialect);
      const index = isUrgent ? "channels_urgent" : "channels_due";
      const { dueSince = 0, channelId = "" } = after ?? {};
      const sql = `SELECT ${CHANNEL_COLUMNS} FROM ${dialect.schema}channels${dialect.indexedBy(index)}
        WHERE network = ${add(network)} AND ${isUrgent ? IS_URGENT : "due_since IS NOT NULL"}
          AND (due_since, channel_id) > (${add(dueSince)}, ${add(channelId)})
        ORDER BY due_since, channel_id LIMIT ${add(limit)}`;
      return (yield { name: `list_${index}`, sql, values }).flatMap((row) => toChannel(row) ?? []);
    },

    *listRefunding({ dialect }, network, limit): Lookup<readonly ChannelRow[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT ${CHANNEL_COLUMNS} FROM ${dialect.schema}channels${dialect.indexedBy("channels_refunding")}
        WHERE network = ${add(network)} AND status = 'refunding' ORDER BY channel_id LIMIT ${add(limit)}`;
      return (yield { name: "list_refunding_channels", sql, values }).flatMap((row) => toChannel(row) ?? []);
    },

    *listUncounted({ dialect }, { channelId, after, limit }): Lookup<readonly UncountedCharges[]> {
      const { values, add } = parameters(dialect);
      const isOf = channelId === undefined ? "" : `AND channel_id = ${add(channelId)}`;
      const isAfter =
        after === undefined
          ? ""
          : `AND (channel_id, call_id) > (${add(after.channelId)}, ${add(after.callId)})`;
      const isDecided = `EXISTS (SELECT 1 FROM ${dialect.schema}payments AS payment
          WHERE payment.call_id = charge.call_id AND payment.state IN ('settled', 'failed'))`;
      // Amounts are decimal text, so the longer text is the higher amount.
      const next = `(SELECT call_id FROM ${dialect.schema}channel_charges AS other
          WHERE other.channel_id = charge.channel_id AND other.is_counted = 0 AND other.state <> 'returned'
            AND other.call_id <> (SELECT coalesce(base_call, 0) FROM ${dialect.schema}channels WHERE channel_id = charge.channel_id)
          ORDER BY length(other.cumulative) DESC, other.cumulative DESC LIMIT 1)`;
      const sql = `SELECT channel_id, call_id, CASE WHEN state IN ('undecided', 'returned') THEN ${next} END AS next_call
        FROM ${dialect.schema}channel_charges AS charge${dialect.indexedBy("channel_charges_ended")}
        WHERE ${IS_ENDED} AND (state <> 'undecided' OR ${isDecided}) ${isOf} ${isAfter}
        ORDER BY channel_id, call_id LIMIT ${add(limit)}`;
      const name = `list_uncounted_charges${channelId === undefined ? "" : "_of_channel"}${after === undefined ? "" : "_after"}`;
      const rows = (yield { name, sql, values }) as readonly UncountedRow[];
      const byChannel = new Map<string, UncountedRow[]>();
      for (const row of rows) byChannel.set(row.channel_id, [...(byChannel.get(row.channel_id) ?? []), row]);
      return [...byChannel].map(([id, of]) => ({
        channelId: id,
        callIds: of.map(({ call_id }) => call_id),
        next: of.find(({ next_call }) => next_call !== null)?.next_call ?? undefined,
      }));
    },
  },
};
