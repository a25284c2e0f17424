import { type Command, InvalidArgumentError } from "commander";
import {
  callOperator,
  jsonLine,
  type Movement,
  type OperatorSelection,
  timestampDate,
  timestampFromMs,
} from "../../commands/operator-client.ts";
import { addOperatorCommand, commandGroup, option, parseTime } from "../../commands/options.ts";
import { MAX_PAGE_SIZE } from "../../commands/output.ts";
import { writeOutput } from "../../commands/stdout.ts";
import { nameIn } from "../../operator/messages.ts";
import { MOVEMENT_KINDS } from "./operator.ts";

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
    if (format === "csv") await writeOutput(csvLine(Object.keys(CSV_COLUMNS)));
    let pageToken = "";
    do {
      const page = await client.listMovements({ ...period, pageSize: MAX_PAGE_SIZE, pageToken });
      const lines = page.movements.map((movement) =>
        format === "csv" ? movementLine(movement) : `${jsonLine(movement)}\n`,
      );
      await writeOutput(lines.join(""));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  });
}

const CSV_COLUMNS: Readonly<Record<string, (movement: Movement) => string>> = {
  time: ({ time }) => (time === undefined ? "" : timestampDate(time).toISOString()),
  kind: ({ kind }) => nameIn(MOVEMENT_KINDS, kind) ?? "",
  network: ({ network }) => inert(network),
  token: ({ token }) => inert(token),
  asset: ({ asset }) => inert(asset),
  transaction: ({ transaction }) => inert(transaction),
  block: ({ block }) => block,
  base_units: ({ baseUnits }) => baseUnits,
  amount: ({ amount }) => amount,
  account: ({ account }) => inert(account),
  counterparty: ({ counterparty }) => inert(counterparty),
  call_id: ({ callId }) => String(callId ?? ""),
  service_id: ({ serviceId }) => String(serviceId ?? ""),
  job_index: ({ jobIndex }) => String(jobIndex ?? ""),
  price: ({ price }) => price,
  currency: ({ currency }) => currency,
  rate: ({ rate }) => rate,
};

const movementLine = (movement: Movement): string =>
  csvLine(Object.values(CSV_COLUMNS).map((cell) => cell(movement)));

/** Line of RFC 4180. */
function csvLine(cells: readonly string[]): string {
  const quoted = cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(",")}\r\n`;
}

/** Keeps spreadsheets from running text as a formula. */
function inert(text: string): string {
  return /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
}
