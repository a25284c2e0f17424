import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import type { OperatorSelection } from "../../commands/operator-client.ts";
import {
  addOperatorCommand,
  argumentOnly,
  byOption,
  callIdArgument,
  commandGroup,
  jsonOption,
  noteOption,
} from "../../commands/options.ts";
import { type PrintOptions, printAnswer, programName } from "../../commands/output.ts";

export function addTo(program: Command): void {
  const jobs = commandGroup(program, {
    name: "jobs",
    description: "Resend the JobCalls of a running jobgate.",
    example: "jobs resend 12 --note 'the runner had an old model'",
  });
  addOperatorCommand(jobs, {
    name: "resend",
    description:
      "Send a JobCall to its job once more: a new, unpaid JobCall with the same body and metadata.",
    example: "jobs resend 12 --note 'the runner had an old model'",
    takes: [
      callIdArgument(),
      noteOption(),
      byOption(),
      argumentOnly("--request-key <key>", "makes a repeat of this command return the same call"),
      jsonOption(),
    ],
  }).action(resend);
}

interface ResendOptions extends OperatorSelection, PrintOptions {
  readonly by: string;
  readonly note: string;
  readonly requestKey?: string;
}

function resend(
  callId: bigint,
  { by, note, requestKey = randomUUID(), ...options }: ResendOptions,
): Promise<void> {
  return printAnswer(
    options,
    (client) => client.resendCall({ callId, by, note, requestKey }),
    ({ callId: made, isNew }) =>
      isNew
        ? `Call ${callId} was resent as call ${made}. To follow call ${made}: ${programName()} jobs show ${made}`
        : `Call ${callId} was resent as call ${made} before, with this request key.`,
  );
}
