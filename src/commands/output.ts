import { printable } from "../core/printable.ts";
import { type Names, readNames } from "./names.ts";
import {
  callOperator,
  jsonLine,
  type Message,
  type OperatorClient,
  type OperatorSelection,
} from "./operator-client.ts";
import { writeOutput } from "./stdout.ts";

/** Options of a command that prints an answer of a running jobgate. */
export interface PrintOptions extends OperatorSelection {
  readonly json?: boolean;
}

/** Options of a command that prints a list. */
export interface ListOptions extends PrintOptions {
  readonly limit: number;
  readonly all?: boolean;
}

/** Largest page that the API returns. */
export const MAX_PAGE_SIZE = 500;

/** Prints one message as JSON, or as the text that `text` makes of it. */
export async function printAnswer<Answer extends Message>(
  options: PrintOptions,
  call: (client: OperatorClient) => Promise<Answer>,
  text: (answer: Answer) => string,
): Promise<void> {
  const answer = await callOperator(options, call);
  console.log(options.json ? jsonLine(answer) : text(answer));
}

/** Prints one message as JSON, or as the text that `text` makes of it with names of jobs and of the network in it. */
export async function printNamed<Answer extends Message>(
  options: PrintOptions,
  call: (client: OperatorClient) => Promise<Answer>,
  text: (answer: Answer, names: Names) => string,
  networkIn: (answer: Answer) => string | undefined = () => undefined,
): Promise<void> {
  const [answer, names] = await callOperator(options, async (client) => {
    const answer = await call(client);
    return [answer, options.json ? undefined : await readNames(client, [networkIn(answer) ?? ""])] as const;
  });
  console.log(names === undefined ? jsonLine(answer) : text(answer, names));
}

/** Functions that make the cells of a table, by the heading of the column. */
export type Columns<Item> = Readonly<Record<string, (item: Item) => string>>;

/** Prints the first entries of a paged list, as JSON lines or as a table. */
export async function printList<Page extends { readonly nextPageToken: string }, Item extends Message>(
  { limit, all = false, ...options }: ListOptions,
  list: {
    readonly readPage: (client: OperatorClient, page: PageRequest) => Promise<Page>;
    readonly items: (page: Page) => readonly Item[];
    readonly columns: Columns<Item> | ((names: Names) => Columns<Item>);
  },
): Promise<void> {
  const { readPage, items, columns } = list;
  const found: Item[] = [];
  let shown = typeof columns === "function" ? {} : columns;
  await callOperator(options, async (client) => {
    let left = all ? Number.POSITIVE_INFINITY : limit;
    let pageToken = "";
    // A page can be short or empty although further entries follow.
    do {
      const page = await readPage(client, { pageSize: Math.min(left, MAX_PAGE_SIZE), pageToken });
      left -= items(page).length;
      pageToken = page.nextPageToken;
      if (options.json)
        await writeOutput(
          items(page)
            .map((item) => `${jsonLine(item)}\n`)
            .join(""),
        );
      else found.push(...items(page));
    } while (left > 0 && pageToken !== "");
    if (typeof columns === "function" && found.length > 0)
      shown = columns(await readNames(client, found.map(networkOf)));
  });
  if (!options.json) printTable(found, shown);
}

/** Prints entries that are read, as JSON lines or as a table. */
export function printEntries<Item extends Message>(
  { json }: PrintOptions,
  items: readonly Item[],
  columns: Columns<Item>,
): void {
  if (json) for (const item of items) console.log(jsonLine(item));
  else printTable(items, columns);
}

/** Prints entries as a table, and says if there are none. */
export function printTable<Item>(items: readonly Item[], columns: Columns<Item>): void {
  if (items.length === 0) console.error("There are none.");
  else console.log(tableOf(items, columns));
}

/** Entries as a table. */
export function tableOf<Item>(items: readonly Item[], columns: Columns<Item>): string {
  const cells = Object.values(columns);
  return table(
    Object.keys(columns),
    items.map((item) => cells.map((cell) => cell(item))),
  );
}

function networkOf(item: object): string {
  return "network" in item ? String(item.network) : "";
}

interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** Rows under their headings, in aligned columns. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, column) =>
    lines.reduce((width, line) => Math.max(width, line[column]?.length ?? 0), 0),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Command by which a person runs this program again. */
export function programName(): string {
  return process.env.npm_command === "exec" ? "npx jobgate" : "jobgate";
}

/** Cuts a text for a table. */
export function shortText(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** Names and values, one pair on a line, in aligned columns. Skips empty values. */
export function fields(pairs: readonly (readonly [name: string, value: string])[]): string {
  const known = pairs.filter(([, value]) => value !== "");
  const width = Math.max(...known.map(([name]) => name.length));
  return known.map(([name, value]) => `${name.padEnd(width)}  ${printable(value)}`).join("\n");
}

/** Number of things: `1 payment`, `2 payments`. */
export function counted(count: bigint | number, thing: string): string {
  return `${count} ${thing}${Number(count) === 1 ? "" : "s"}`;
}

/** Duration in its two largest units: `2 h 5 min`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.floor(ms))} ms`;
  const seconds = Math.floor(ms / 1_000);
  const units = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ] as const;
  const first = units.findIndex(([count]) => count > 0);
  return units
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}
