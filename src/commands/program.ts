import { Command, CommanderError, InvalidArgumentError } from "commander";
import { version } from "../node/version.ts";
import { Refusal } from "./input.ts";
import { readFlagTwins } from "./options.ts";
import { OutputClosed } from "./stdout.ts";

/** The modules of each command, in the order of the help. */
const COMMANDS: readonly (readonly [name: string, load: () => Promise<(program: Command) => void>])[] = [
  ["init", async () => (await import("../parts/init/init.ts")).addInitCommand],
  ["serve", async () => (await import("./serve.ts")).addServeCommand],
  ["run-each", async () => (await import("../parts/run-each/run-each.ts")).addRunEachCommand],
  ["dev", async () => (await import("../parts/dev/dev.ts")).addDevCommand],
  ["pay", async () => (await import("../parts/pay/pay.ts")).addPayCommand],
  ["check", async () => (await import("./check.ts")).addCheckCommand],
  ["sign-caller", async () => (await import("./sign-caller.ts")).addSignCallerCommand],
  ["sign-webhook", async () => (await import("./sign-webhook.ts")).addSignWebhookCommand],
  ["status", async () => (await import("../parts/operator/commands/status.ts")).addStatusCommand],
  ["jobs", async () => (await import("../parts/operator/commands/jobs.ts")).addJobsCommand],
  ["payments", async () => (await import("../parts/operator/commands/payments.ts")).addPaymentsCommand],
  ["payments", async () => (await import("../parts/books/export-command.ts")).addExportCommand],
  ["refunds", async () => (await import("../parts/refunds/command.ts")).addRefundsCommand],
  ["callbacks", async () => (await import("../parts/callbacks/command.ts")).addCallbacksCommand],
  ["store", async () => (await import("./store.ts")).addStoreCommand],
  [
    "dead-letters",
    async () => (await import("../parts/operator/commands/dead-letters.ts")).addDeadLettersCommand,
  ],
  ["tail", async () => (await import("../parts/tail/tail.ts")).addTailCommand],
  ["completion", async () => (await import("../parts/completion/completion.ts")).addCompletionCommand],
];

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
    const program = await makeProgram(args[0]);
    await program.parseAsync(args, { from: "user" });
    return FINE;
  } catch (error) {
    if (error instanceof Refusal) {
      for (const line of error.lines) console.error(line);
      return REFUSED;
    }
    // The program's own listener of stdout has printed the reason, unless the reader of a pipe has left.
    if (error instanceof OutputClosed) return FINE;
    if (error instanceof InvalidArgumentError) console.error(`error: ${error.message}`);
    if (error instanceof CommanderError) return error.exitCode === 0 ? FINE : BAD_USAGE;
    throw error;
  }
}

/** Loads only the command that is named; all of them for the help, and for the completion of all. */
async function makeProgram(name = ""): Promise<Command> {
  const program = new Command("jobgate")
    .description("Turns x402 payments and webhooks into jobs for a runner in any language.")
    .version(version)
    .addHelpText("after", "\nExample:\n  $ jobgate check && jobgate serve")
    .showHelpAfterError("(add --help for all options)")
    .exitOverride()
    .hook("preAction", (_program, command) => readFlagTwins(command));
  const named = name === "completion" ? [] : COMMANDS.filter(([command]) => command === name);
  const modules = named.length === 0 ? COMMANDS : named;
  for (const add of await Promise.all(modules.map(([, load]) => load()))) add(program);
  return program;
}
