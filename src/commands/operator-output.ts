import { Option } from "commander";
import { jsonLine } from "../operator/presentation.ts";
import { askOperator, type OperatorOptions } from "./operator-api.ts";
import type { OperatorClient } from "./operator-client.ts";
import { isFlagSet } from "./options.ts";
import { firstOf, type Page, type PageRequest } from "./paged-list.ts";
import { table } from "./table.ts";

/** One of the operator's API. */
type Message = Parameters<typeof jsonLine>[0];

/** Options of a command that prints what a running jobgate answers. */
export interface PrintOptions extends OperatorOptions {
  readonly json?: boolean;
}

export interface ListOptions extends PrintOptions {
  readonly limit: number;
}

/** `--json`, on or off. */
export const jsonOption = () =>
  new Option("--json", "one line of JSON for each, as over HTTP (env: JOBGATE_JSON)");

function wantsJson({ json }: PrintOptions): boolean {
  return json ?? isFlagSet("JOBGATE_JSON");
}

/** Asks for one message, and prints it as JSON or as `text` puts it. */
export async function printAnswer<Answer extends Message>(
  options: PrintOptions,
  ask: (client: OperatorClient) => Promise<Answer>,
  text: (answer: Answer) => string,
): Promise<void> {
  const answer = await askOperator(options, ask);
  console.log(wantsJson(options) ? jsonLine(answer) : text(answer));
}

/** Asks for the first entries of a paged list, and prints each as JSON, or all of them as a table. */
export async function printList<Item extends Message>(
  options: ListOptions,
  list: {
    readonly readPage: (client: OperatorClient, page: PageRequest) => Promise<Page<Item>>;
    readonly headings: readonly string[];
    readonly row: (item: Item) => readonly string[];
  },
): Promise<void> {
  const found = await askOperator(options, (client) =>
    firstOf(options.limit, (page) => list.readPage(client, page)),
  );
  if (wantsJson(options)) for (const item of found) console.log(jsonLine(item));
  else console.log(table(list.headings, found.map(list.row)));
}
