import { styleText } from "node:util";
import type { Command } from "commander";
import { EVENT_KINDS, eventRow, kindOf } from "../../commands/event-text.ts";
import { type Names, readNames } from "../../commands/names.ts";
import { callOperator, type Event, jsonLine } from "../../commands/operator-client.ts";
import { addOperatorCommand, jsonOption, option, parseCallId, parseInteger } from "../../commands/options.ts";
import type { PrintOptions } from "../../commands/output.ts";
import { writeOutput } from "../../commands/stdout.ts";
import { printable } from "../../core/printable.ts";

const OWN_KINDS = [
  ...[
    "accepted",
    "delivered",
    "progressed",
    "acked",
    "retried",
    "dead-lettered",
    "dropped",
    "payment-decided",
  ],
];
/** Kinds of events that only timelines have. */
const OF_TIMELINES = ["payment-begun"];
/** Kinds of events that parts report. */
const KINDS_OF_PARTS = EVENT_KINDS.filter((kind) => ![...OWN_KINDS, ...OF_TIMELINES].includes(kind));
const MAX_HISTORY = 500;

export function addTo(program: Command): void {
  addOperatorCommand(program, {
    name: "tail",
    description: "Print the events of a running jobgate as they happen. Runners still get every JobCall.",
    example: "tail --history 20 --only retried dead-lettered",
    takes: [
      option("--only <kind...>", "only events of these kinds").choices([...OWN_KINDS, ...KINDS_OF_PARTS]),
      option("--call <id>", "only events of this JobCall").argParser(parseCallId),
      option("--history <N>", "number of the latest events to print first")
        .default(0)
        .argParser((value) => parseInteger(value, 0, MAX_HISTORY)),
      jsonOption("print JSON lines, as without a terminal"),
    ],
  }).action(tail);
}

interface TailOptions extends PrintOptions {
  readonly only?: readonly string[];
  readonly call?: bigint;
  readonly history: number;
}

async function tail(options: TailOptions): Promise<void> {
  const { only, call, history } = options;
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  process.once("SIGINT", stop).once("SIGTERM", stop);
  // The reader of the pipe has gone, for example `head`.
  process.stdout.once("error", stop);
  const isJson = options.json === true || !process.stdout.isTTY;
  const isWanted = (event: Event) =>
    (only?.includes(kindOf(event)) ?? true) && (call === undefined || event.callId === call);
  try {
    await callOperator(options, async (client) => {
      try {
        let watching = false;
        const names = isJson ? undefined : await readNames(client);
        for await (const { event, missed } of client.tail({ history }, { signal: stopping.signal })) {
          // The first message after the history is empty, and so are messages that only keep the stream alive.
          if (!watching && event === undefined) {
            console.error("watching; end with Ctrl-C");
            watching = true;
          }
          if (missed > 0n) await print(isJson ? `{"missed":"${missed}"}` : `… ${missed} events missed`);
          if (event !== undefined && isWanted(event))
            await print(names === undefined ? jsonLine(event) : eventLine(event, names));
        }
      } catch (error) {
        if (!stopping.signal.aborted) throw error;
      }
    });
  } finally {
    process.off("SIGINT", stop).off("SIGTERM", stop);
    process.stdout.off("error", stop);
  }

  /** Waits for a slow reader, because jobgate drops and counts the events that do not fit. */
  async function print(line: string): Promise<void> {
    if (!stopping.signal.aborted)
      await writeOutput(
        `${line}
`,
        stopping.signal,
      );
  }
}

/** Widths of the columns. They are fixed, because events come one by one. */
const CALL_WIDTH = 9;
const KIND_WIDTH = 18;

/** Formats an event for a terminal, in the color of its outcome. */
export function eventLine(event: Event, names: Pick<Names, "job">): string {
  const [time = "", kind = "", details = ""] = eventRow(event, names).map(printable);
  const call = `#${event.callId}`.padEnd(CALL_WIDTH);
  return `${paint("dim", time)}  ${call}  ${paint(colorOf(kind), kind.padEnd(KIND_WIDTH))}  ${details}`.trimEnd();
}

function colorOf(kind: string): Color {
  if (/dead|failed|unresolved|dropped/.test(kind)) return "red";
  if (kind === "retried") return "yellow";
  return /acked|settled/.test(kind) ? "green" : "cyan";
}

type Color = "dim" | "red" | "yellow" | "green" | "cyan";

function paint(color: Color, text: string): string {
  return process.stdout.isTTY && !process.env.NO_COLOR ? styleText(color, text) : text;
}
