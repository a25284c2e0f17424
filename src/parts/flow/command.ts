import { Argument, type Command } from "commander";
import {
  callOperator,
  type HeldKey,
  type OperatorSelection,
  timeText,
} from "../../commands/operator-client.ts";
import { addOperatorCommand, byOption, jsonOption, option } from "../../commands/options.ts";
import {
  counted,
  type PrintOptions,
  printAnswer,
  printEntries,
  programName,
  shortText,
} from "../../commands/output.ts";
import { addPartText, type PartText } from "../../commands/part-text.ts";
import { printable } from "../../core/printable.ts";

/** Most keys in one answer of the operator's API. */
const MAX_PAGE_SIZE = 500;

interface Signed extends OperatorSelection, PrintOptions {
  readonly by: string;
  readonly reason?: string;
}

const takes = () => [
  new Argument("<endpoint>", "webhook endpoint with order_by: its path or name"),
  new Argument("<key>", "value that the requests have in common"),
];
const reasonOption = () => option("--reason <text>", "reason, for other operators and the log");

/** `jobgate held-keys` */
export const HELD_KEYS = {
  addTo(program: Command): void {
    addOperatorCommand(program, {
      name: "held-keys",
      description:
        "List the keys of order_by that a dead letter holds up or that are paused, the longest first. Retry or drop the dead letter, or resume the key, to release it.",
      example: "held-keys",
      takes: [jsonOption()],
    }).action(list);
  },
};

/** `jobgate pause-key` */
export const PAUSE_KEY = {
  addTo(program: Command): void {
    addOperatorCommand(program, {
      name: "pause-key",
      description: "Keep the JobCalls of one key of order_by from runners, until it is resumed.",
      example: 'pause-key /webhooks/orders customer-17 --reason "sends a thousand a second"',
      takes: [
        ...takes(),
        option("--refuse-accepts", "answer new requests with the key 503 as well"),
        reasonOption(),
        byOption(),
        jsonOption(),
      ],
    }).action(pause);
  },
};

/** `jobgate resume-key` */
export const RESUME_KEY = {
  addTo(program: Command): void {
    addOperatorCommand(program, {
      name: "resume-key",
      description: "Let runners have the JobCalls of a paused key again, the oldest first.",
      example: "resume-key /webhooks/orders customer-17",
      takes: [...takes(), reasonOption(), byOption(), jsonOption()],
    }).action(resume);
  },
};

/** Lines about held keys in the commands that print totals. */
const TEXT: PartText = {
  problems: ({ heldKeys, pausedKeys }) => [
    ...(heldKeys === 0n
      ? []
      : [`${counted(heldKeys, "key")} held by a dead letter: ${programName()} held-keys`]),
    ...(pausedKeys === 0n ? [] : [`${counted(pausedKeys, "key")} paused: ${programName()} held-keys`]),
  ],
};

/** Lines of `jobgate status`. */
export const STATUS = { addTo: () => addPartText(TEXT) };

async function list(options: OperatorSelection & PrintOptions): Promise<void> {
  const { keys } = await callOperator(options, (client) => client.listHeldKeys({ pageSize: MAX_PAGE_SIZE }));
  printEntries(options, keys, {
    ENDPOINT: ({ endpoint }) => endpoint,
    KEY: ({ key }) => shortText(key),
    "DEAD LETTER": ({ callId }) => (callId === 0n ? "-" : String(callId)),
    WAITING: ({ waiting }) => String(waiting),
    SINCE: ({ since, pause }) => timeText(since ?? pause?.since),
    "PAUSED BY": ({ pause }) => pause?.by ?? "-",
    ACCEPTS: ({ pause }) => (pause?.refusesAccepts ? "refused" : "go on"),
    REASON: ({ pause }) => shortText(pause?.note ?? "") || "-",
  });
}

function pause(
  endpoint: string,
  key: string,
  { by, reason: note = "", refuseAccepts = false, ...options }: Signed & { readonly refuseAccepts?: boolean },
): Promise<void> {
  return printAnswer(
    options,
    (client) => client.pauseKey({ endpoint, key, refuseAccepts, by, note }),
    ({ paused }) => (paused === undefined ? "" : pausedText(paused)),
  );
}

function pausedText({ endpoint, key, callId, isOneOut, pause }: HeldKey): string {
  const accepts = pause?.refusesAccepts ? "are answered 503" : "are accepted and wait";
  return [
    `The key is paused: no runner gets its JobCalls, and new requests with it ${accepts}.`,
    ...(isOneOut ? ["A runner has one of its JobCalls, and may finish it."] : []),
    ...(callId === 0n ? [] : [`Dead letter ${callId} holds it up as well.`]),
    `To go on: ${programName()} resume-key ${printable(endpoint)} ${printable(key)}`,
  ].join("\n");
}

function resume(endpoint: string, key: string, { by, reason: note = "", ...options }: Signed): Promise<void> {
  return printAnswer(
    options,
    (client) => client.resumeKey({ endpoint, key, by, note }),
    ({ heldBy }) =>
      heldBy === 0n
        ? "The key goes on."
        : `The key is resumed, but dead letter ${heldBy} holds it up: retry or drop the dead letter.`,
  );
}
