import { type Command, InvalidArgumentError } from "commander";
import { type Names, readNames } from "../../commands/names.ts";
import {
  callOperator,
  jsonLine,
  type MovementSum,
  type OperatorSelection,
  timestampFromMs,
  timestampMs,
} from "../../commands/operator-client.ts";
import {
  addOperatorCommand,
  argumentOnly,
  commandGroup,
  jsonOption,
  option,
  parseTime,
  sinceOption,
} from "../../commands/options.ts";
import { type Columns, MAX_PAGE_SIZE, type PrintOptions, printTable } from "../../commands/output.ts";
import { writeOutput } from "../../commands/stdout.ts";
import { MOVEMENT_GROUPS, MOVEMENT_KINDS } from "./operator.ts";
import { csvHeader, csvOf } from "./portable/export.ts";
import { AMOUNTS, DAY_MS, dayText, periodsAt, sumText } from "./portable/periods.ts";

export function addTo(program: Command): void {
  const payments = commandGroup(program, {
    name: "payments",
    description: "Show the books of a running jobgate.",
    example: "payments export --from 30d --to 0d",
  });
  const time = (flags: string, description: string) =>
    option(flags, description).argParser(parseTime).makeOptionMandatory();
  addOperatorCommand(payments, {
    name: "export",
    description: "Print the books of a period: every payment, charge, refund and network fee, oldest first.",
    example: "payments export --from 2026-01-01 --to 2026-02-01 --format csv > january.csv",
    takes: [
      time(
        "--from <time>",
        "movements recorded from then on: 2026-01-31, 2026-01-31T10:00Z, or an age such as 7d",
      ),
      time("--to <time>", "movements recorded before then"),
      option("--format <format>", "rows").choices(["csv", "jsonl"]).default("csv"),
    ],
  }).action(exportBooks);
  addOperatorCommand(payments, {
    name: "sums",
    description:
      "Print what was earned, net of refunds, fees and losses: today, yesterday, in 7 and in 30 UTC days; or in other days, by job, token, network or day.",
    example: "payments sums --by job --since 2026-01-01 --until 2026-01-31",
    takes: [
      // This option has no environment variable, because JOBGATE_BY is the name of the operator.
      argumentOnly(
        "--by <group>",
        "what each sum is of; amounts of different tokens are never added",
      ).choices(Object.keys(MOVEMENT_GROUPS)),
      sinceOption("from the UTC day of this time on; by default 30 days"),
      option("--until <time>", "through the UTC day of this time, which is included").argParser(parseTime),
      jsonOption(),
    ],
  }).action(printSums);
}

interface ExportOptions extends OperatorSelection {
  /** Unix milliseconds. */
  readonly from: number;
  readonly to: number;
  readonly format: "csv" | "jsonl";
}

async function exportBooks({ from, to, format, ...selection }: ExportOptions): Promise<void> {
  if (from >= to) {
    const given = [from, to].map((time) => new Date(time).toISOString()).join(" and --to ");
    throw new InvalidArgumentError(`--from ${given}: expected --from before --to`);
  }
  const period = { since: timestampFromMs(from), until: timestampFromMs(to) };
  if (to > Date.now()) console.error("The period is not over: a later export has more rows.");
  await callOperator(selection, async (client) => {
    if (format === "csv") await writeOutput(csvHeader());
    let pageToken = "";
    do {
      const page = await client.listMovements({ ...period, pageSize: MAX_PAGE_SIZE, pageToken });
      const lines = page.movements.map((movement) =>
        format === "csv" ? csvOf(movement, MOVEMENT_KINDS) : `${jsonLine(movement)}\n`,
      );
      await writeOutput(lines.join(""));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  });
}

interface SumOptions extends PrintOptions {
  readonly by?: keyof typeof MOVEMENT_GROUPS;
  /** Unix milliseconds. */
  readonly since?: number;
  readonly until?: number;
}

async function printSums({ by, since, until, json, ...selection }: SumOptions): Promise<void> {
  const isOverview = by === undefined && since === undefined && until === undefined;
  // The API leaves `until` itself out of the period, and ends the period with the day of the millisecond before
  // `until`.
  const end = until === undefined ? undefined : until + 1;
  const periods = isOverview ? periodsAt(Date.now()) : [{ name: "", since, until: end }];
  const [answers, names] = await callOperator(selection, async (client) => {
    const answers = await Promise.all(
      periods.map((period) =>
        client.sumMovements({
          by: MOVEMENT_GROUPS[by ?? "token"],
          ...(period.since !== undefined && { since: timestampFromMs(period.since) }),
          ...(period.until !== undefined && { until: timestampFromMs(period.until) }),
        }),
      ),
    );
    const networks = answers.flatMap(({ sums }) => sums.map(({ network }) => network));
    return [answers, json ? undefined : await readNames(client, networks)] as const;
  });
  if (names === undefined) {
    for (const answer of answers) console.log(jsonLine(answer));
    return;
  }
  const lines = answers.flatMap(({ sums, since, until }, i) => {
    const first = since === undefined ? "" : dayText(timestampMs(since));
    const last = until === undefined ? "" : dayText(timestampMs(until) - DAY_MS);
    const days = first === last ? first : `${first} to ${last}`;
    const ofPeriod = isOverview ? sumsOfTokens(sums, answers.at(-1)?.sums ?? []) : sums;
    return ofPeriod.map((sum) => ({ sum, period: [periods[i]?.name, days].filter(Boolean).join(", ") }));
  });
  const group: Columns<(typeof lines)[number]> = {
    ...(by === "day" && { day: ({ sum }) => (sum.day === undefined ? "" : dayText(timestampMs(sum.day))) }),
    ...(by === "job" && { job: ({ sum }) => jobText(sum, names) }),
    ...(by === undefined && { period: ({ period }) => period }),
  };
  const amounts = Object.entries(AMOUNTS).map(([heading, name]) => [
    heading.toLowerCase(),
    ({ sum }: (typeof lines)[number]) => sumText(sum, name),
  ]);
  printTable(lines, {
    ...group,
    ...(by === "network" && { network: ({ sum }) => names.network(sum.network) }),
    token: ({ sum }) => sum.token,
    ...(by !== "network" && { network: ({ sum }) => names.network(sum.network) }),
    payments: ({ sum }) => String(sum.payments),
    ...Object.fromEntries(amounts),
  });
}

/** Returns the sums of the tokens of a longer period, in their order. A token that did not move has an empty sum. */
function sumsOfTokens(sums: readonly MovementSum[], tokens: readonly MovementSum[]): MovementSum[] {
  const keyOf = ({ network, asset, token, decimals }: MovementSum) =>
    `${network} ${asset} ${token} ${decimals}`;
  const known = new Map(sums.map((sum) => [keyOf(sum), sum]));
  const nothing = Object.fromEntries(Object.values(AMOUNTS).map((name) => [name, "0"]));
  return tokens.map((token) => known.get(keyOf(token)) ?? { ...token, ...nothing, payments: 0n });
}

function jobText({ serviceId, jobIndex }: MovementSum, names: Names): string {
  if (serviceId === undefined || jobIndex === undefined) return "of no job";
  return names.job({ origin: "x402", serviceId, jobId: jobIndex });
}
