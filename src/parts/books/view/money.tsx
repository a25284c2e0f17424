import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type Holding,
  MovementGroup,
  MovementKind,
  type MovementSum,
  RefundState,
} from "../../../gen/jobgate/v1/operator_pb.ts";
import { countText, grouped, plural } from "../../../page/shared/format.js";
import { client, useAction, useAnswer, useTotals } from "../../../page/tools/client.ts";
import { type Column, Hint, Problem, Table } from "../../../page/tools/controls.tsx";
import { Ago, JobLink, NetworkName, OnChain, SECOND_MS } from "../../../page/tools/format.tsx";
import { type Filters, href, type PartView } from "../../../page/tools/route.ts";
import { csvHeader, csvOf } from "../portable/export.ts";
import {
  AMOUNTS,
  DAY_MS,
  dayText,
  type Period,
  type PeriodKey,
  periodsAt,
  signedDecimalText,
  sumText,
} from "../portable/periods.ts";

const EVERY_MS = 5 * SECOND_MS;
/** Largest page of the API. */
const PAGE_SIZE = 500;
/** Jobs that the page shows. */
const MAX_ROWS = 200;

/** Net earnings of each token, in each period, by job and by day. */
function Money({ filters }: { filters: Filters }) {
  const periods = periodsAt(Date.now());
  const { key, name, since, until } = periods.find(({ key }) => key === filters.period) ?? periods[1] ?? NONE;
  const days = until - since === DAY_MS ? dayText(since) : `${dayText(since)} to ${dayText(until - DAY_MS)}`;
  return (
    <>
      <Net />
      <nav class="chips" aria-label="Period">
        {periods.map((period) => (
          <a
            key={period.key}
            href={href("money", { period: period.key })}
            aria-current={period.key === key ? "true" : undefined}
          >
            {period.name}
          </a>
        ))}
      </nav>
      <div class="panel-head">
        <p class="muted">
          {name}: {days}, UTC
        </p>
        <Export since={since} until={until} />
      </div>
      <Sums
        title="By job"
        by={MovementGroup.JOB}
        {...{ since, until }}
        first={{ label: "Job", cell: jobCell }}
      />
      <Sums
        title="By day"
        by={MovementGroup.DAY}
        {...{ since, until }}
        first={{ label: "Day", cell: dayCell }}
      />
      <Held />
    </>
  );
}

const NONE = { key: "yesterday", name: "", since: 0, until: DAY_MS } as const;

/** Period that includes the days of all other periods. */
const LONGEST: PeriodKey = "30d";

const tokenOf = ({ network, asset }: Pick<MovementSum, "network" | "asset">) => `${network} ${asset}`;

/** Net of each token in all periods. */
function Net() {
  const { data } = useAnswer(["money"], EVERY_MS, async (options) => {
    const answers = periodsAt(Date.now()).map(async ({ key, ...period }) => {
      const { sums } = await client.sumMovements(timesOf(period), options);
      return [key, sums] as const;
    });
    return new Map(await Promise.all(answers));
  });
  const netIn = (period: PeriodKey, token: MovementSum) => {
    const sum = data?.get(period)?.find((one) => tokenOf(one) === tokenOf(token));
    return sum === undefined ? "0" : grouped(sumText(sum, "net"));
  };
  return (
    <section class="panel" aria-labelledby="net-title">
      <h2 id="net-title">Net of refunds, fees and losses</h2>
      <Table
        caption="Net by token"
        items={data?.get(LONGEST)}
        keyOf={tokenOf}
        empty={<Hint>Nothing moved in 30 days.</Hint>}
        columns={[
          { label: "Token", cell: ({ token }) => token },
          { label: "Network", cell: (token) => <NetworkName {...token} /> },
          ...periodsAt(Date.now()).map(({ key, name }) => ({
            label: name,
            class: "number",
            cell: (token: MovementSum) => <a href={href("money", { period: key })}>{netIn(key, token)}</a>,
          })),
        ]}
      />
    </section>
  );
}

/** Sums of a period by job or by day. */
function Sums(options: Period & { title: string; by: MovementGroup; first: Column<MovementSum> }) {
  const { title, by, first, since, until } = options;
  const key = ["money", String(by), String(since), String(until)];
  const { data } = useAnswer(key, EVERY_MS, (options) =>
    client.sumMovements({ ...timesOf({ since, until }), by }, options),
  );
  const id = `sums-${by}`;
  const more = (data?.sums.length ?? 0) - MAX_ROWS;
  return (
    <section class="panel" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <Table
        caption={title}
        items={data?.sums.slice(0, MAX_ROWS)}
        keyOf={(sum) => `${sum.day?.seconds} ${sum.serviceId}/${sum.jobIndex} ${tokenOf(sum)}`}
        empty={<Hint>Nothing moved.</Hint>}
        columns={[
          { ...first, class: "words" },
          { label: "Token", class: "nowrap", cell: ({ token }) => token },
          { label: "Network", class: "words", cell: (sum) => <NetworkName {...sum} /> },
          { label: "Payments", class: "number", cell: ({ payments }) => countText(payments) },
          ...Object.entries(AMOUNTS)
            .filter(([, name]) => ALWAYS_SHOWN.includes(name) || data?.sums.some((sum) => sum[name] !== "0"))
            .map(([label, name]) => ({
              label,
              class: "number",
              cell: (sum: MovementSum) =>
                sum[name] === "0" && name !== "net" ? "–" : grouped(sumText(sum, name)),
            })),
        ]}
      />
      {more > 0 && <Hint command="jobgate payments sums --by job">{plural(more, "further row")}:</Hint>}
    </section>
  );
}

/** Amounts whose columns are shown even if every row lacks them. Empty columns of other amounts are left out. */
const ALWAYS_SHOWN: readonly string[] = ["sold", "refunded", "net"];

function jobCell({ serviceId, jobIndex }: MovementSum) {
  if (serviceId === undefined || jobIndex === undefined) return "of no job";
  return <JobLink origin="x402" serviceId={serviceId} jobId={BigInt(jobIndex)} />;
}

const dayCell = ({ day }: MovementSum) => (day === undefined ? "" : dayText(timestampMs(day)));

const useHoldings = () => useAnswer(["holdings"], EVERY_MS, (options) => client.listHoldings({}, options));

/**
 * Money that is not booked yet, and the balances of jobgate's own accounts, as far as parts of this build know them.
 */
function Held() {
  const { data: totals } = useTotals();
  const { data: known } = useHoldings();
  const owed = totals?.refunds.filter(({ state }) => state === RefundState.OWED) ?? [];
  const rows = [
    ...(totals?.channels ?? []).map(({ network, unclaimedText, oldestAt }) => ({
      what: <a href={href("channels")}>Unclaimed in channels</a>,
      ...{ network, amount: unclaimedText },
      when: oldestAt && (
        <>
          oldest since <Ago time={oldestAt} suffix="" />
        </>
      ),
    })),
    ...owed.map(({ network, amountText, oldestAt }) => ({
      what: <a href={href("refunds", { state: "owed" })}>Refunds owed</a>,
      ...{ network, amount: amountText },
      when: oldestAt && (
        <>
          oldest since <Ago time={oldestAt} suffix="" />
        </>
      ),
    })),
    ...(known?.holdings ?? []).map((holding) => ({
      what: <Account {...holding} />,
      network: holding.network,
      amount: `${signedDecimalText(holding.amount, holding.decimals)} ${holding.symbol}`,
      when: (
        <>
          read <Ago time={holding.readAt} />
        </>
      ),
    })),
  ].map((row, index) => ({ ...row, index }));
  return (
    <section class="panel" aria-labelledby="held-title">
      <h2 id="held-title">Owed and held</h2>
      <Table
        caption="Owed and held"
        items={totals && known && rows}
        keyOf={({ index }) => String(index)}
        empty={<Hint>Nothing is owed, and no balance was read yet.</Hint>}
        columns={[
          { label: "What", class: "wide", cell: ({ what }) => what },
          { label: "Network", cell: (row) => <NetworkName {...row} /> },
          { label: "Amount", class: "number", cell: ({ amount }) => grouped(amount) },
          { label: "When", class: "nowrap", cell: ({ when }) => when ?? "–" },
        ]}
      />
    </section>
  );
}

function Account({ pays, account, network }: Holding) {
  return (
    <>
      Account that pays {pays}:{" "}
      <OnChain kind="account" network={network}>
        {account}
      </OnChain>
    </>
  );
}

/** Downloads the movements of a period: the bytes that `jobgate payments export` prints. */
function Export(period: Period) {
  const { run, problem } = useAction();
  const save = () =>
    run(async () => {
      const lines = [csvHeader()];
      let pageToken = "";
      do {
        const page = await client.listMovements({ ...timesOf(period), pageSize: PAGE_SIZE, pageToken });
        lines.push(page.movements.map((movement) => csvOf(movement, MovementKind)).join(""));
        pageToken = page.nextPageToken;
      } while (pageToken !== "");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
      link.download = `jobgate-${dayText(period.since)}-to-${dayText(period.until - DAY_MS)}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
      return "The books are saved.";
    });
  return (
    <>
      <button type="button" onClick={() => void save()}>
        Export CSV
      </button>
      <Problem text={problem} />
    </>
  );
}

const timesOf = ({ since, until }: Period) => ({
  since: timestampFromMs(since),
  until: timestampFromMs(until),
});

/** Accounts that hold too little for the payments that wait for them. */
function useAttention() {
  const { data: known } = useHoldings();
  const short = known?.holdings.filter(({ isShort }) => isShort) ?? [];
  return short.map(({ pays, amount, decimals, symbol }) => ({
    to: href("money"),
    text: `The account that pays ${pays} has only ${grouped(signedDecimalText(amount, decimals))} ${symbol}`,
  }));
}

export const VIEW: PartView = { path: "money", title: "Money", after: "", View: Money, useAttention };
