import { Argument, type Command } from "commander";
import { type Names, readNames } from "../../commands/names.ts";
import {
  callOperator,
  callStateText,
  SearchKind,
  type SearchResult,
  timeText,
} from "../../commands/operator-client.ts";
import { addOperatorCommand, jsonOption } from "../../commands/options.ts";
import { type Columns, type PrintOptions, printEntries, shortText } from "../../commands/output.ts";
import { nameIn, numbersOf } from "../../operator/messages.ts";

export function addTo(program: Command): void {
  addOperatorCommand(program, {
    name: "find",
    description:
      "Find calls, transactions, payers, payment IDs, refused requests, jobs, dead letters, metadata and order keys by their beginning.",
    example: "find 0x5e1d",
    takes: [new Argument("<text>", "number of a call, or at least 3 characters"), jsonOption()],
  }).action(find);
}

async function find(text: string, options: PrintOptions): Promise<void> {
  const { answer, names } = await callOperator(options, async (client) => ({
    answer: await client.search({ text }),
    names: await readNames(client),
  }));
  const { results, more, isIncomplete } = answer;
  printEntries(options, results, columnsWith(names));
  for (const kind of more) console.error(`More than 20 were found: ${nameOf(kind)}.`);
  if (isIncomplete)
    console.error("The index of the search does not have all calls yet: try again in a few minutes.");
}

function columnsWith(names: Names): Columns<SearchResult> {
  return {
    KIND: ({ kind }) => nameOf(kind),
    CALL: ({ callId }) => (callId === undefined ? "" : String(callId)),
    JOB: (result) => (result.origin === "" ? "" : names.job(result)),
    STATE: ({ state, code, count }) => (state === 0 ? code || countText(count) : callStateText(state)),
    TIME: ({ at }) => (at === undefined ? "" : timeText(at)),
    FOUND: ({ name, value }) => shortText(name === "" ? value : `${name}: ${value}`),
  };
}

function countText(count: bigint): string {
  return count === 0n ? "" : String(count);
}

const KINDS = numbersOf<SearchKind>(SearchKind);

function nameOf(kind: SearchKind): string {
  return (nameIn(KINDS, kind) ?? "?").replaceAll("_", " ");
}
