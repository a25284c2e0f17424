import type { Command } from "commander";
import { callOperator, type GetCallContentResponse, jsonLine } from "../../commands/operator-client.ts";
import {
  addOperatorCommand,
  byOption,
  callIdArgument,
  commandGroup,
  jsonOption,
} from "../../commands/options.ts";
import { fields, type PrintOptions } from "../../commands/output.ts";
import { printable } from "../../core/printable.ts";

export function addTo(program: Command): void {
  const jobs = commandGroup(program, {
    name: "jobs",
    description: "Show the bodies and results of the JobCalls of a running jobgate.",
    example: "jobs body 12",
  });
  addOperatorCommand(jobs, {
    name: "body",
    description:
      "Print the body and the result of one JobCall, if [operator] show_bodies allows it; jobgate logs who looked.",
    example: "jobs body 12",
    takes: [callIdArgument(), byOption(), jsonOption()],
  }).action(show);
}

async function show(
  callId: bigint,
  { by, ...options }: PrintOptions & { readonly by: string },
): Promise<void> {
  const content = await callOperator(options, (client) => client.getCallContent({ callId, by }));
  console.log(options.json ? jsonLine(content) : contentText(content));
}

function contentText(content: GetCallContentResponse): string {
  const { body, bodyBytes, result, resultBytes, contentType, status, headers } = content;
  const facts = [
    ["body", sizeText(body, bodyBytes)],
    ["result", sizeText(result, resultBytes)],
    ["content type", contentType],
    ["status", status === 0 ? "" : String(status)],
    ...headers.map(({ name, value }) => [name, value] as const),
  ] as const;
  return [fields(facts), bytesText(body), bytesText(result)].filter((text) => text !== "").join("\n\n");
}

function sizeText(bytes: Uint8Array | undefined, size: bigint): string {
  if (bytes === undefined) return "not kept";
  return bytes.length < size ? `${size} bytes, of which the first ${bytes.length} follow` : `${size} bytes`;
}

/** Returns text whose lines cannot control a terminal. */
function bytesText(bytes: Uint8Array = new Uint8Array()): string {
  try {
    // The shown part can end in the middle of a character.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    return text.split("\n").map(printable).join("\n");
  } catch {
    return "(no text: --json prints it in base64)";
  }
}
