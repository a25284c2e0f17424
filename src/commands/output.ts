import {
  callOperator,
  jsonLine,
  type Message,
  type OperatorClient,
  type OperatorSelection,
} from "./operator-client.ts";
import { isFlagSet } from "./options.ts";

/** Options of a command that prints an answer of a running jobgate. */
export interface PrintOptions extends OperatorSelection {
  readonly json?: boolean;
}

/** Options of a command that prints a list. */
export interface ListOptions extends PrintOptions {
  readonly limit: number;
}

/** Largest page that the API returns. */
const MAX_PAGE_SIZE = 500;

/** Prints one message as JSON, or as the text that `text` makes of it. */
export async function printAnswer<Answer extends Message>(
  options: PrintOptions,
  call: (client: OperatorClient) => Promise<Answer>,
  text: (answer: Answer) => string,
): Promise<void> {
  const answer = await callOperator(options, call);
  console.log(wantsJson(options) ? jsonLine(answer) : text(answer));
}

/** Prints the first entries of a paged list, as JSON lines or as a table. */
export async function printList<Item extends Message>(
  options: ListOptions,
  list: {
    readonly readPage: (client: OperatorClient, page: PageRequest) => Promise<Page<Item>>;
    readonly headings: readonly string[];
    readonly row: (item: Item) => readonly string[];
  },
): Promise<void> {
  const items = await callOperator(options, (client) =>
    readItems(options.limit, (page) => list.readPage(client, page)),
  );
  if (wantsJson(options)) for (const item of items) console.log(jsonLine(item));
  else console.log(table(list.headings, items.map(list.row)));
}

function wantsJson({ json }: PrintOptions): boolean {
  return json ?? isFlagSet("JOBGATE_JSON");
}

interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextPageToken: string;
}

async function readItems<Item>(
  limit: number,
  readPage: (page: PageRequest) => Promise<Page<Item>>,
): Promise<Item[]> {
  const found: Item[] = [];
  let pageToken = "";
  do {
    const pageSize = Math.min(limit - found.length, MAX_PAGE_SIZE);
    const page = await readPage({ pageSize, pageToken });
    found.push(...page.items);
    pageToken = page.nextPageToken;
  } while (found.length < limit && pageToken !== "");
  return found;
}

/** Rows under their headings, in aligned columns. */
function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
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

/** Escapes characters that move a terminal's cursor, or hide or reorder text: others wrote some of these values. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}
