import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { Commit, StoreModule } from "../../../store/module.ts";
import { keyIn } from "../../../store/rows.ts";
import { resumed } from "./chain-rules.ts";
import type { OperatedChannels, Signature } from "./operator-ledger.ts";
import { refundDecision } from "./refund-rules.ts";
import {
  CHANNELS_TABLE,
  CHARGES_TABLE,
  type ChannelRow,
  type ChargeRow,
  DECISIONS_TABLE,
  type DecisionRow,
  plainRow,
} from "./row.ts";
import { claimedSoon } from "./rules.ts";
import { SUMS_TABLE, sumsOfChange } from "./totals.ts";

type Steps = NonNullable<StoreModule<OperatedChannels>["steps"]>;
type Lookups = NonNullable<StoreModule<OperatedChannels>["lookups"]>;

const keyOf = (channelId: string) => keyIn(CHANNELS_TABLE, { channel_id: channelId });

function find(commit: Commit, channelId: string): ChannelRow | undefined {
  const row = commit.rows.find<ChannelRow, "channel_id">(CHANNELS_TABLE, { channel_id: channelId });
  return row && plainRow<ChannelRow>(CHANNELS_TABLE, row);
}

/** Writes a channel that the step named, and adds its change to the sums. */
export function writeChannel(commit: Commit, row: ChannelRow): void {
  commit.rows.count(SUMS_TABLE, sumsOfChange(find(commit, row.channel_id), row));
  commit.rows.put(CHANNELS_TABLE, row);
}

/** Writes a channel, and the operator's decision. */
function decide(
  commit: Commit,
  row: ChannelRow,
  { action, by, note, at }: Signature & { readonly action: DecisionRow["action"]; readonly at: number },
): ChannelRow {
  writeChannel(commit, row);
  commit.rows.add(DECISIONS_TABLE, { channel_id: row.channel_id, action, by_name: by, note, at });
  return row;
}

/** Steps by which operators claim, pay back and resume channels. */
export const OPERATOR_STEPS = {
  claimSoon: {
    keys: (channelIds) => channelIds.map(keyOf),
    run: (commit, now, channelIds, signature) =>
      channelIds.flatMap((channelId) => {
        const row = claimedSoon(find(commit, channelId), now);
        return row === undefined ? [] : decide(commit, row, { action: "claim", ...signature, at: now });
      }),
  },

  refundByOperator: {
    keys: (channelId) => [keyOf(channelId)],
    run(commit, now, channelId, chain, signature) {
      const before = find(commit, channelId);
      const decision = refundDecision(before, { amount: undefined, chain }, now);
      if (decision.kind === "refunding" && before?.status !== "refunding")
        decide(commit, decision.row, { action: "refund", ...signature, at: now });
      return decision;
    },
  },

  resumeChannels: {
    keys: (channels) => channels.map(({ channelId }) => keyOf(channelId)),
    run: (commit, now, channels, signature) =>
      channels.flatMap(({ channelId, chain }) => {
        const row = resumed(find(commit, channelId), chain, now);
        return row === undefined ? [] : decide(commit, row, { action: "resume", ...signature, at: now });
      }),
  },
} satisfies Steps;

/** Lookups of channels and their charges for operators. */
export const OPERATOR_LOOKUPS = {
  *listChannelsByAge({ dialect }, { status, after, limit }): Lookup<readonly ChannelRow[]> {
    const { values, add } = parameters(dialect);
    const index = status === undefined ? "channels_by_age" : "channels_by_status";
    const isWanted = status === undefined ? "" : `status = ${add(status)} AND`;
    const { createdAt = Number.MAX_SAFE_INTEGER, channelId = "" } = after ?? {};
    const sql = `SELECT ${CHANNELS_TABLE.columns.join()} FROM ${dialect.schema}channels${dialect.indexedBy(index)}
      WHERE ${isWanted} (created_at, channel_id) < (${add(createdAt)}, ${add(channelId)})
      ORDER BY created_at DESC, channel_id DESC LIMIT ${add(limit)}`;
    const rows = yield { name: `list_${index}`, sql, values };
    return rows.map((row) => plainRow<ChannelRow>(CHANNELS_TABLE, row));
  },

  *listOpenCharges({ dialect }, channelId, limit): Lookup<readonly ChargeRow[]> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT ${CHARGES_TABLE.columns.join()} FROM ${dialect.schema}channel_charges${dialect.indexedBy("channel_charges_uncounted")}
      WHERE is_counted = 0 AND channel_id = ${add(channelId)} ORDER BY call_id DESC LIMIT ${add(limit)}`;
    const rows = yield { name: "list_open_charges", sql, values };
    return rows.map((row) => plainRow<ChargeRow>(CHARGES_TABLE, row));
  },

  *listChannelDecisions({ dialect }, channelId, limit): Lookup<readonly DecisionRow[]> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT id, ${DECISIONS_TABLE.columns.join()} FROM ${dialect.schema}channel_decisions
      WHERE channel_id = ${add(channelId)} ORDER BY id DESC LIMIT ${add(limit)}`;
    return (yield { name: "list_channel_decisions", sql, values }) as readonly DecisionRow[];
  },

  *listDueIds({ dialect }, { after, limit }): Lookup<readonly string[]> {
    const { values, add } = parameters(dialect);
    const sql = `SELECT channel_id FROM ${dialect.schema}channels
      WHERE due_since IS NOT NULL AND channel_id > ${add(after)} ORDER BY channel_id LIMIT ${add(limit)}`;
    const rows = (yield { name: "list_due_channel_ids", sql, values }) as readonly Pick<
      ChannelRow,
      "channel_id"
    >[];
    return rows.map(({ channel_id }) => channel_id);
  },

  *countOwedChannels({ dialect }): Lookup<number> {
    const due = `SELECT count(*) FROM ${dialect.schema}channels${dialect.indexedBy("channels_due")} WHERE due_since IS NOT NULL`;
    const refunding = `SELECT count(*) FROM ${dialect.schema}channels${dialect.indexedBy("channels_by_status")} WHERE status = 'refunding'`;
    const [row] = yield {
      name: "count_owed_channels",
      sql: `SELECT (${due}) + (${refunding}) AS n`,
      values: [],
    };
    return Number((row as { readonly n: unknown }).n);
  },
} satisfies Lookups;
