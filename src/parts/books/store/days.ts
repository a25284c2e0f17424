import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import { count, type Effect } from "../../../store/machine/changes.ts";
import type { Asked } from "../../../store/module.ts";
import type { Table } from "../../../store/rows.ts";
import type { MovementGroup, MovementSum, SummedPeriod } from "./ledger.ts";
import type { NewMovementRow } from "./row.ts";

const DAY_MS = 86_400_000;

/** Amounts of a day, each 0 or more. A correction adds to `found` or to `taken_back`. */
const AMOUNTS = ["sold", "refunded", "charged_back", "lost", "fees", "found", "taken_back"] as const;
const TOKEN = ["network", "asset", "symbol", "decimals"] as const;
const JOB = ["service_id", "job_index"] as const;

interface DayKey {
  /** Days since 1970, in UTC. */
  readonly day: number;
  /** Empty for movements that belong to no single job. */
  readonly service_id: string;
  readonly job_index: number;
  readonly network: string;
  /** Empty for the network's own coin, whose symbol is also empty. */
  readonly asset: string;
  readonly symbol: string;
  readonly decimals: number;
  /** Number of the row's slot, of which Postgres uses several ({@link Rows.count}). */
  readonly slot: number;
}
type Numbers = Readonly<Record<(typeof AMOUNTS)[number] | "payments", string>>;
type DayRow = DayKey & Numbers;

/** Sums of the movements of each day, job and token. */
const DAYS: Table<DayRow, keyof DayKey> = {
  name: "movement_days",
  key: ["day", ...JOB, ...TOKEN, "slot"],
  columns: ["day", ...JOB, ...TOKEN, "slot", "payments", ...AMOUNTS],
};

/** Adds a movement to the sums of its day. */
export function counted(row: NewMovementRow): Effect {
  const { at, service_id, job_index, network, asset, symbol, decimals } = row;
  const isOut = row.amount.startsWith("-");
  // The object is built without a spread, because V8 takes ten times as long to add the other fields to a spread object.
  const by = {
    day: Math.floor(at / DAY_MS),
    service_id: service_id ?? "",
    job_index: job_index ?? 0,
    network,
    asset: asset ?? "",
    symbol: symbol ?? "",
    decimals,
    slot: 0,
    payments: row.kind === "payment" || row.kind === "charge" ? "1" : "0",
    sold: "0",
    refunded: "0",
    charged_back: "0",
    lost: "0",
    fees: "0",
    found: "0",
    taken_back: "0",
  };
  by[columnOf(row, isOut)] = isOut ? row.amount.slice(1) : row.amount;
  return count(DAYS, by);
}

function columnOf(row: NewMovementRow, isOut: boolean): (typeof AMOUNTS)[number] {
  switch (row.kind) {
    case "payment":
    case "charge":
      return "sold";
    case "refund":
      // A call is charged back in its channel without a transaction.
      return row.transaction_hash === null ? "charged_back" : "refunded";
    case "network_fee":
      return "fees";
    case "loss":
      return "lost";
    default:
      return isOut ? "taken_back" : "found";
  }
}

const GROUPS: Readonly<Record<MovementGroup, readonly (keyof DayKey)[]>> = {
  token: [],
  network: [],
  job: JOB,
  day: ["day"],
};

type SummedRow = Numbers & Pick<DayKey, (typeof TOKEN)[number]> & Partial<DayKey>;

/** Adds up the days of a period. */
export function* sumMovements(
  { dialect }: Asked,
  { from, to, by }: SummedPeriod,
): Lookup<readonly MovementSum[]> {
  const { values, add } = parameters(dialect);
  const keys = [...GROUPS[by], ...TOKEN].join();
  const sums = ["payments", ...AMOUNTS].map((name) => `${dialect.sumOf(name)} AS ${name}`);
  const sql = `SELECT ${keys}, ${sums.join()} FROM ${dialect.schema}movement_days
    WHERE day >= ${add(from)} AND day < ${add(to)} GROUP BY ${keys}`;
  const rows = (yield { name: `sum_movements_by_${by}`, sql, values }) as readonly SummedRow[];
  return rows.map(toSum).sort(by === "network" ? byNetwork : bySymbol);
}

function toSum(row: SummedRow): MovementSum {
  const { day, service_id, job_index, network, asset, symbol, decimals } = row;
  const [sold, refunded, chargedBack, lost, fees, found, takenBack] = AMOUNTS.map((name) =>
    BigInt(row[name]),
  ) as [bigint, bigint, bigint, bigint, bigint, bigint, bigint];
  const corrected = found - takenBack;
  return {
    day,
    job:
      service_id && job_index !== undefined
        ? { serviceId: BigInt(service_id), jobIndex: job_index }
        : undefined,
    ...{ network, token: asset === "" ? undefined : { asset, symbol }, decimals },
    ...{ payments: BigInt(row.payments), sold, refunded, chargedBack, lost, fees, corrected },
    net: sold + corrected - refunded - chargedBack - lost - fees,
  };
}

type Order = (a: MovementSum, b: MovementSum) => number;

/**
 * Orders sums by day, then by job. Sums that belong to no single job come last. The sums of one day and job are in the
 * order of their payments, the most first. The coin in which fees are paid comes last.
 */
const bySymbol: Order = (a, b) =>
  byDayAndJob(a, b) ||
  Number(a.token === undefined) - Number(b.token === undefined) ||
  Number(b.payments - a.payments) ||
  compare(symbolOf(a), symbolOf(b)) ||
  compare(placeOf(a), placeOf(b));
const byNetwork: Order = (a, b) => compare(a.network, b.network) || bySymbol(a, b);

const byDayAndJob: Order = (a, b) =>
  (a.day ?? 0) - (b.day ?? 0) ||
  Number(a.job === undefined) - Number(b.job === undefined) ||
  compare(a.job?.serviceId ?? 0n, b.job?.serviceId ?? 0n) ||
  (a.job?.jobIndex ?? 0) - (b.job?.jobIndex ?? 0);

const symbolOf = ({ token }: MovementSum) => token?.symbol ?? "";
const placeOf = ({ network, token, decimals }: MovementSum) => `${network} ${token?.asset} ${decimals}`;

function compare<Value extends string | bigint>(a: Value, b: Value): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
