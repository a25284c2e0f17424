import type { ListDialect } from "../../../store/list-dialect.ts";
import type { CountQuery } from "../../../store/module.ts";
import type { Table } from "../../../store/rows.ts";
import type { StoreTotals } from "../../../store/store.ts";
import type { ChannelRow, ChannelStatus } from "./row.ts";
import { max } from "./rules.ts";

const STATES = ["open", "refunding", "withdrawing", "stopped"] as const satisfies ChannelStatus[];
const AMOUNTS = ["balance", "charged", "final", "claimed", "lost"] as const satisfies (keyof ChannelRow)[];
const TOKEN = ["network", "asset", "symbol"] as const satisfies (keyof ChannelRow)[];

type Named = Record<(typeof TOKEN)[number], string>;
/** Totals of a token in decimal: the number of channels in each state, and sums of token units. */
type SumRow = Named & Record<(typeof STATES)[number] | (typeof AMOUNTS)[number], string>;

export const SUMS_TABLE: Table<SumRow, (typeof TOKEN)[number]> = {
  name: "channel_sums",
  key: TOKEN,
  columns: [...TOKEN, ...STATES, ...AMOUNTS],
};

/** Returns what the change of a channel adds to the sums of its token. */
export function sumsOfChange(before: ChannelRow | undefined, after: ChannelRow): SumRow {
  const is = (row: ChannelRow | undefined, state: string) => (row?.status === state ? 1 : 0);
  const { network, asset, symbol } = after;
  const sums = { network, asset, symbol } as SumRow;
  for (const state of STATES) sums[state] = String(is(after, state) - is(before, state));
  for (const name of AMOUNTS)
    sums[name] =
      before?.[name] === after[name] ? "0" : String(BigInt(after[name]) - BigInt(before?.[name] ?? 0));
  return sums;
}

/** Channels of one token. Amounts are token units. */
export interface ChannelSum extends Readonly<Named> {
  readonly channels: readonly (readonly [state: ChannelStatus, channels: number])[];
  readonly deposited: bigint;
  readonly charged: bigint;
  readonly final: bigint;
  readonly claimed: bigint;
  readonly lost: bigint;
  readonly unclaimed: bigint;
  /** Unix milliseconds. */
  readonly oldestDueAt: number | undefined;
}

/** Row of {@link countChannels}. */
export interface CountedSum extends SumRow {
  readonly oldest_due: number | null;
}

/** Reads the sums of all tokens. */
export function countChannels({ schema, indexedBy }: ListDialect): CountQuery {
  const texts = [...STATES, ...AMOUNTS].map((name) => [name, `CAST(${name} AS text)`]);
  const isOfToken = TOKEN.map((name) => `channels.${name} = sums.${name}`).join(" AND ");
  const oldest_due = `(SELECT min(due_since) FROM ${schema}channels${indexedBy("channels_due_by_token")}
      WHERE ${isOfToken} AND due_since IS NOT NULL)`;
  const token = TOKEN.map((name) => [name, name]);
  return {
    values: { ...Object.fromEntries([...token, ...texts]), oldest_due },
    from: `FROM ${schema}channel_sums AS sums`,
  };
}

/** Reads the rows of {@link countChannels}. */
export function toChannelSums(rows: readonly CountedSum[]): ChannelSum[] {
  return rows.map(({ network, asset, symbol, oldest_due, ...row }) => {
    const [deposited, charged, final, claimed, lost] = AMOUNTS.map((name) => BigInt(row[name])) as [
      ...[bigint, bigint, bigint, bigint, bigint],
    ];
    return {
      ...{ network, asset, symbol, deposited, charged, final, claimed, lost },
      channels: STATES.map((state) => [state, Number(row[state])] as const).filter(([, n]) => n > 0),
      unclaimed: max(0n, final - claimed - lost),
      oldestDueAt: oldest_due === null ? undefined : Number(oldest_due),
    };
  });
}

/** Returns the sums of channels by token. */
export function channelSums({ sums }: Pick<StoreTotals, "sums">): readonly ChannelSum[] {
  return (sums.channels ?? []) as readonly ChannelSum[];
}
