import type { Command } from "commander";
import { callOperator, type OperatorSelection, timeText } from "../../commands/operator-client.ts";
import { addOperatorCommand, jsonOption } from "../../commands/options.ts";
import { type PrintOptions, printEntries, shortText } from "../../commands/output.ts";

/** Most keys that the operator's API returns. */
const MAX_PAGE_SIZE = 500;

/** Adds `jobgate held-keys`. */
export function addTo(program: Command): void {
  addOperatorCommand(program, {
    name: "held-keys",
    description:
      "List the keys of order_by that a dead letter holds up, the longest held first. Retry or drop the dead letter to release its key.",
    example: "held-keys",
    takes: [jsonOption()],
  }).action(list);
}

async function list(options: OperatorSelection & PrintOptions): Promise<void> {
  const { keys } = await callOperator(options, (client) => client.listHeldKeys({ pageSize: MAX_PAGE_SIZE }));
  printEntries(options, keys, {
    ENDPOINT: ({ endpoint }) => endpoint,
    KEY: ({ key }) => shortText(key),
    "DEAD LETTER": ({ callId }) => String(callId),
    WAITING: ({ waiting }) => String(waiting),
    SINCE: ({ since }) => timeText(since),
  });
}
