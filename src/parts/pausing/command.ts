import { Argument, type Command } from "commander";
import {
  callOperator,
  type OperatorSelection,
  type Pausable,
  timeText,
} from "../../commands/operator-client.ts";
import { addOperatorCommand, byOption, jsonOption, option } from "../../commands/options.ts";
import {
  type PrintOptions,
  printAnswer,
  printEntries,
  programName,
  shortText,
} from "../../commands/output.ts";
import { printable } from "../../core/printable.ts";
import { pausableText } from "./status-text.ts";

interface Signed extends OperatorSelection {
  readonly by: string;
  readonly reason?: string;
}

const reasonOption = () => option("--reason <text>", "reason, for other operators and the log");

const targetArgument = () =>
  new Argument(
    "<target>",
    "job (name, route or SERVICE/INDEX), webhook endpoint (path or name) or API (name)",
  );

/** `jobgate pause` */
export const PAUSE = {
  addTo(program: Command): void {
    addOperatorCommand(program, {
      name: "pause",
      description:
        "Keep the JobCalls of a job, a webhook endpoint or an API from runners, until it is resumed.",
      example: 'pause /hooks/github --reason "runner is being replaced"',
      takes: [
        targetArgument(),
        option("--refuse-accepts", "answer new requests 503 as well; always so if the charge comes later"),
        reasonOption(),
        byOption(),
        jsonOption(),
      ],
    }).action(pause);
  },
};

/** `jobgate resume` */
export const RESUME = {
  addTo(program: Command): void {
    addOperatorCommand(program, {
      name: "resume",
      description: "End a pause: runners get the JobCalls again, and new requests are accepted.",
      example: "resume /hooks/github",
      takes: [targetArgument(), reasonOption(), byOption(), jsonOption()],
    }).action(resume);
  },
};

/** `jobgate paused` */
export const PAUSED = {
  addTo(program: Command): void {
    addOperatorCommand(program, {
      name: "paused",
      description: "List what is paused, the longest paused first.",
      example: "paused",
      takes: [jsonOption()],
    }).action(list);
  },
};

async function pause(
  target: string,
  {
    by,
    reason: note = "",
    refuseAccepts = false,
    ...options
  }: Signed & PrintOptions & { readonly refuseAccepts?: boolean },
): Promise<void> {
  const request = { target, refuseAccepts, by, note };
  await printAnswer(
    options,
    (client) => client.pause(request),
    ({ paused }) => (paused === undefined ? "" : pausedText(paused)),
  );
}

function pausedText(paused: Pausable): string {
  const { key, sharedWith, pause } = paused;
  const accepts = pause?.refusesAccepts ? "are answered 503" : "are accepted and wait";
  const others = sharedWith.map(printable).join(", ");
  return [
    `${pausableText(paused)} is paused: no runner gets its JobCalls, and new requests ${accepts}.`,
    ...(others === "" ? [] : [`JobCalls of ${others} wait as well, because they have the same job ID.`]),
    `To go on: ${programName()} resume ${printable(key)}`,
  ].join("\n");
}

function resume(target: string, { by, reason: note = "", ...options }: Signed & PrintOptions): Promise<void> {
  return printAnswer(
    options,
    (client) => client.resume({ target, by, note }),
    ({ resumed }) => (resumed === undefined ? "" : `${pausableText(resumed)} goes on.`),
  );
}

async function list(options: PrintOptions): Promise<void> {
  const { paused } = await callOperator(options, (client) => client.getTotals({}));
  printEntries(options, paused, {
    KIND: ({ kind }) => kind,
    KEY: ({ key }) => key,
    NAME: ({ name }) => name,
    SINCE: ({ pause }) => timeText(pause?.since),
    ACCEPTS: (one) => (one.pause?.refusesAccepts ? "refused" : "go on"),
    BY: ({ pause }) => pause?.by ?? "",
    REASON: ({ pause }) => shortText(pause?.note ?? ""),
  });
}
