import type { Command } from "commander";
import { Refusal } from "./input.ts";
import {
  callOperator,
  type DeadLetter,
  DeadLetterStatus,
  type GetDeadLetterResponse,
  type OperatorClient,
  type OperatorSelection,
  timeText,
} from "./operator-client.ts";
import { addOperatorOptions, callIdArgument, callIdsArgument, jsonOption, limitOption } from "./options.ts";
import { fields, type ListOptions, type PrintOptions, printAnswer, printList, shortText } from "./output.ts";

export function addDeadLettersCommand(program: Command): void {
  const deadLetters = program
    .command("dead-letters")
    .description("List the dead letters of a running jobgate; retry or drop them.")
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters list");

  addOperatorOptions(deadLetters.command("list"))
    .description("List dead letters, newest first.")
    .addOption(limitOption())
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters list --limit 10")
    .action(list);

  addOperatorOptions(deadLetters.command("show"))
    .description("Show one dead letter, with its metadata and body.")
    .addArgument(callIdArgument())
    .addOption(jsonOption())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters show 12")
    .action(show);

  addOperatorOptions(deadLetters.command("retry"))
    .description("Return dead letters to the queue; exit 1 if any ID is not a dead letter.")
    .addArgument(callIdsArgument())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters retry 12 13")
    .action((callIds: bigint[], options: OperatorSelection) =>
      changeEach("retried", callIds, options, (client) => client.retryDeadLetters({ callIds })),
    );

  addOperatorOptions(deadLetters.command("drop"))
    .description("Delete dead letters; exit 1 if any ID is not a dead letter.")
    .addArgument(callIdsArgument())
    .addHelpText("after", "\nExample:\n  $ jobgate dead-letters drop 12 13")
    .action((callIds: bigint[], options: OperatorSelection) =>
      changeEach("dropped", callIds, options, (client) => client.dropDeadLetters({ callIds })),
    );
}

const list = (options: ListOptions): Promise<void> =>
  printList(options, {
    async readPage(client, page) {
      const { deadLetters, nextPageToken } = await client.listDeadLetters(page);
      return { items: deadLetters, nextPageToken };
    },
    headings: ["ID", "ORIGIN", "JOB", "ATTEMPTS", "DEAD SINCE", "REASON"],
    row,
  });

function row({ callId, origin, serviceId, jobId, attempts, deadAt, reason }: DeadLetter): string[] {
  return [
    String(callId),
    origin,
    `${serviceId}/${jobId}`,
    String(attempts),
    timeText(deadAt),
    shortText(reason),
  ];
}

const show = (callId: bigint, options: PrintOptions): Promise<void> =>
  printAnswer(options, (client) => client.getDeadLetter({ callId }), details);

function details({ deadLetter, metadata, body }: GetDeadLetterResponse): string {
  if (deadLetter === undefined) throw new Error("The operator API returned no dead letter");
  return fields([
    ["call ID", String(deadLetter.callId)],
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
    return "not UTF-8 text; --json prints it as base64";
  }
}

async function changeEach(
  change: "retried" | "dropped",
  callIds: readonly bigint[],
  options: OperatorSelection,
  call: (client: OperatorClient) => Promise<{ statuses: readonly DeadLetterStatus[] }>,
): Promise<void> {
  const { statuses } = await callOperator(options, call);
  const missing = callIds.filter((_, index) => statuses[index] !== DeadLetterStatus.DONE);
  for (const callId of callIds) if (!missing.includes(callId)) console.log(`${callId} ${change}`);
  if (missing.length > 0) throw new Refusal(missing.map((callId) => `${callId} is not a dead letter`));
}
