import { Argument, type Command } from "commander";
import { Refusal } from "../../commands/input.ts";
import { callOperator, type OperatorSelection } from "../../commands/operator-client.ts";
import {
  addCommand,
  addOperatorCommand,
  idsArgument,
  listOptions,
  option,
  parseCallId,
  stateOption,
} from "../../commands/options.ts";
import { type ListOptions, printList } from "../../commands/output.ts";
import { defined } from "../../core/objects.ts";
import { CALLBACK_COLUMNS } from "./call-text.ts";
import { CALLBACK_STATES } from "./operator-states.ts";
import type { CallbackState } from "./store/ledger.ts";

/** Each URL has 10 s to answer. */
const TEST_TIMEOUT_MS = 30_000;

export function addTo(program: Command): void {
  const callbacks = addCommand(program, {
    name: "callbacks",
    description: "List the callbacks of a running jobgate; try one again, or send a test.",
    example: "callbacks list --state dead",
  });

  addOperatorCommand(callbacks, {
    name: "list",
    description: "List callbacks, newest first.",
    example: "callbacks list --state pending",
    takes: [
      ...listOptions(),
      stateOption("callbacks", CALLBACK_STATES),
      option("--call <id>", "only callbacks about this call").argParser(parseCallId),
    ],
  }).action(list);

  addOperatorCommand(callbacks, {
    name: "retry",
    description:
      "Try callbacks now, including callbacks that were given up; exit 1 if any was sent or does not exist.",
    example: "callbacks retry 12 13",
    takes: [idsArgument("IDs of callbacks")],
  }).action(retry);

  addOperatorCommand(callbacks, {
    name: "test",
    description: "Send a test message to the configured URLs, once; exit 1 if any does not accept it.",
    example: "callbacks test https://ops.example.com/jobgate",
    takes: [new Argument("[url]", "only this URL")],
  }).action(test);
}

function list({
  state,
  call: callId,
  ...options
}: ListOptions & { readonly state?: CallbackState; readonly call?: bigint }): Promise<void> {
  const filter = defined({ state: state && CALLBACK_STATES[state], callId });
  return printList(options, {
    readPage: (client, page) => client.listCallbacks({ ...page, ...filter }),
    items: (page) => page.callbacks,
    columns: CALLBACK_COLUMNS,
  });
}

async function retry(ids: bigint[], options: OperatorSelection): Promise<void> {
  for (const id of ids) {
    await callOperator(options, (client) => client.retryCallback({ id }));
    console.log(`${id} is tried now`);
  }
}

async function test(url = "", options: OperatorSelection): Promise<void> {
  const { outcomes } = await callOperator(options, (client) =>
    client.testCallbacks({ url }, { timeoutMs: TEST_TIMEOUT_MS }),
  );
  const failed = outcomes.filter(({ problem }) => problem !== "");
  for (const { url, problem } of outcomes) if (problem === "") console.log(`${url} accepts`);
  if (failed.length > 0) throw new Refusal(failed.map(({ url, problem }) => `${url}: ${problem}`));
}
