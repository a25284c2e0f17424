import { Argument, type Command } from "commander";
import {
  type DeadLetter,
  DeadLetterStatus,
  type GetDeadLetterResponse,
  jsonLine,
  timeText,
} from "../operator/presentation.ts";
import {
  addOperatorOptions,
  askOperator,
  jsonOption,
  type OperatorOptions,
  parseCallId,
  wantsJson,
} from "./operator-api.ts";
import { firstOf, limitOption } from "./paged-list.ts";
import { Refusal } from "./refusal.ts";
import { fields, table } from "./table.ts";

interface DeadLettersOptions extends OperatorOptions {
  readonly json?: boolean;
}

interface ListOptions extends DeadLettersOptions {
  readonly limit: number;
}

export function addDeadLettersCommand(program: Command): void {
  const deadLetters = program
    .command("dead-letters")
    .description("Look at the JobCalls that a running jobgate has given up, and decide about them.")
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters list");

  addOperatorOptions(deadLetters.command("list"))
    .description("List dead letters, newest first.")
    .addOption(limitOption())
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters list --limit 10")
    .action(list);

  addOperatorOptions(deadLetters.command("show"))
    .description("Show one dead letter with its metadata and body.")
    .addArgument(new Argument("<id>", "call id").argParser(parseCallId))
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters show 12")
    .action(show);

  addOperatorOptions(deadLetters.command("retry"))
    .description("Put dead letters back in the queue; exit 1 if any of them is none.")
    .addArgument(idsArgument())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters retry 12 13")
    .action((callIds: bigint[], options: OperatorOptions) =>
      decide("retried", callIds, options, (client) => client.retryDeadLetters({ callIds })),
    );

  addOperatorOptions(deadLetters.command("drop"))
    .description("Give dead letters up for good; exit 1 if any of them is none.")
    .addArgument(idsArgument())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters drop 12 13")
    .action((callIds: bigint[], options: OperatorOptions) =>
      decide("dropped", callIds, options, (client) => client.dropDeadLetters({ callIds })),
    );
}

const idsArgument = () =>
  new Argument("<id...>", "call ids").argParser((value: string, previous: bigint[] | undefined) => [
    ...(previous ?? []),
    parseCallId(value),
  ]);

async function list(options: ListOptions): Promise<void> {
  const found = await askOperator(options, (client) =>
    firstOf(options.limit, async (page) => {
      const { deadLetters, nextPageToken } = await client.listDeadLetters(page);
      return { items: deadLetters, nextPageToken };
    }),
  );
  if (wantsJson(options)) for (const letter of found) console.log(jsonLine(letter));
  else console.log(table(["ID", "ORIGIN", "JOB", "ATTEMPTS", "DEAD SINCE", "REASON"], found.map(row)));
}

function row({ callId, origin, serviceId, jobId, attempts, deadAt, reason }: DeadLetter): string[] {
  return [
    String(callId),
    origin,
    `${serviceId}/${jobId}`,
    String(attempts),
    timeText(deadAt),
    reason.length > 80 ? `${reason.slice(0, 79)}…` : reason,
  ];
}

async function show(callId: bigint, options: DeadLettersOptions): Promise<void> {
  const found = await askOperator(options, (client) => client.getDeadLetter({ callId }));
  console.log(wantsJson(options) ? jsonLine(found) : details(found));
}

function details({ deadLetter, metadata, body }: GetDeadLetterResponse): string {
  if (deadLetter === undefined) throw new Error("The answer holds no dead letter");
  return fields([
    ["call id", String(deadLetter.callId)],
    ["origin", deadLetter.origin],
    ["job", `${deadLetter.serviceId}/${deadLetter.jobId}`],
    ["attempts", String(deadLetter.attempts)],
    ["reason", deadLetter.reason],
    ["enqueued", timeText(deadLetter.enqueuedAt)],
    ["dead since", timeText(deadLetter.deadAt)],
    ...Object.entries(metadata),
    [`body, ${body.byteLength} bytes`, bodyText(body)],
  ]);
}

function bodyText(body: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return "not text: --json prints it as base64";
  }
}

async function decide(
  done: "retried" | "dropped",
  callIds: readonly bigint[],
  options: OperatorOptions,
  ask: (
    client: Parameters<Parameters<typeof askOperator>[1]>[0],
  ) => Promise<{ statuses: readonly DeadLetterStatus[] }>,
): Promise<void> {
  const { statuses } = await askOperator(options, ask);
  const missing = callIds.filter((_, index) => statuses[index] !== DeadLetterStatus.DONE);
  for (const callId of callIds) if (!missing.includes(callId)) console.log(`${callId} ${done}`);
  if (missing.length > 0) throw new Refusal(missing.map((callId) => `${callId} is no dead letter`));
}
