import { Command, CommanderError, InvalidArgumentError } from "commander";
import { version } from "../node/version.ts";
import { addCheckCommand } from "./check.ts";
import { addDeadLettersCommand } from "./dead-letters.ts";
import { Refusal } from "./input.ts";
import { addPaymentsCommand } from "./payments.ts";
import { addRunEachCommand } from "./run-each/run-each.ts";
import { addServeCommand } from "./serve.ts";
import { addSignCallerCommand } from "./sign-caller.ts";
import { addSignWebhookCommand } from "./sign-webhook.ts";
import { addTailCommand } from "./tail.ts";

/** Exit codes of every command. */
const FINE = 0;
const REFUSED = 1;
const BAD_USAGE = 2;

/**
 * Runs the command that the arguments name.
 * @param args without interpreter and script
 * @returns the exit code: 0 success, 1 refused (a bad configuration, an unreachable peer), 2 bad usage
 */
export async function runProgram(args: readonly string[]): Promise<number> {
  try {
    await makeProgram().parseAsync(args, { from: "user" });
    return FINE;
  } catch (error) {
    if (error instanceof Refusal) {
      for (const line of error.lines) console.error(line);
      return REFUSED;
    }
    if (error instanceof InvalidArgumentError) console.error(`error: ${error.message}`);
    if (error instanceof CommanderError) return error.exitCode === 0 ? FINE : BAD_USAGE;
    throw error;
  }
}

function makeProgram(): Command {
  const program = new Command("jobgate")
    .description("Turns x402 payments and webhooks into jobs for a runner in any language.")
    .version(version)
    .addHelpText("after", "\nExample:\n  $ jobgate check && jobgate serve")
    .showHelpAfterError("(add --help for all options)")
    .exitOverride();
  addServeCommand(program);
  addRunEachCommand(program);
  addCheckCommand(program);
  addSignCallerCommand(program);
  addSignWebhookCommand(program);
  addPaymentsCommand(program);
  addDeadLettersCommand(program);
  addTailCommand(program);
  return program;
}
