import { Command, CommanderError, InvalidArgumentError } from "commander";
import { version } from "../node/version.ts";
import { Refusal } from "./input.ts";
import { readFlagTwins } from "./options.ts";
import { OutputClosed } from "./stdout.ts";

interface CommandModule {
  /** Adds the command, or adds to the command if another module of the same name has added it. */
  addTo(program: Command): void;
}

/** The modules of each command, in the order of the help. To delete a command, delete its lines and its files. */
const COMMANDS: readonly (readonly [name: string, load: () => Promise<CommandModule>])[] = [
  ["init", () => import("../parts/init/init.ts")],
  ["sell", () => import("../parts/init/sell.ts")],
  ["serve", () => import("./serve.ts")],
  ["run-each", () => import("../parts/run-each/run-each.ts")],
  ["dev", () => import("../parts/dev/dev.ts")],
  ["pay", () => import("../parts/pay/pay.ts")],
  ["check", () => import("./check.ts")],
  ["price", () => import("../parts/request-prices/command.ts")],
  ["sign-caller", () => import("../parts/callers/command.ts")],
  ["sign-webhook", () => import("../parts/sign-webhook/command.ts")],
  ["status", () => import("../parts/operator/commands/status.ts")],
  ["find", () => import("../parts/search/command.ts")],
  ["jobs", () => import("../parts/operator/commands/jobs.ts")],
  ["payments", () => import("../parts/operator/commands/payments.ts")],
  ["payments", () => import("../parts/books/command.ts")],
  ["payments", async () => (await import("../parts/payment-alerts/command.ts")).ALERTS],
  ["status", async () => (await import("../parts/payment-alerts/command.ts")).STATUS],
  ["refunds", () => import("../parts/refunds/command.ts")],
  ["status", () => import("../parts/refunds/part-text.ts")],
  ["jobs", () => import("../parts/refunds/part-text.ts")],
  ["payments", () => import("../parts/refunds/part-text.ts")],
  ["pause", async () => (await import("../parts/pausing/command.ts")).PAUSE],
  ["resume", async () => (await import("../parts/pausing/command.ts")).RESUME],
  ["paused", async () => (await import("../parts/pausing/command.ts")).PAUSED],
  ["status", () => import("../parts/pausing/status-text.ts")],
  ["held-keys", async () => (await import("../parts/flow/command.ts")).HELD_KEYS],
  ["pause-key", async () => (await import("../parts/flow/command.ts")).PAUSE_KEY],
  ["resume-key", async () => (await import("../parts/flow/command.ts")).RESUME_KEY],
  ["status", async () => (await import("../parts/flow/command.ts")).STATUS],
  ["channels", () => import("../parts/channels/command.ts")],
  ["callbacks", () => import("../parts/callbacks/command.ts")],
  ["jobs", () => import("../parts/callbacks/call-text.ts")],
  ["status", () => import("../parts/callbacks/call-text.ts")],
  ["jobs", () => import("../parts/bodies/command.ts")],
  ["jobs", () => import("../parts/resend/command.ts")],
  ["store", () => import("./store.ts")],
  ["dead-letters", () => import("../parts/operator/commands/dead-letters.ts")],
  ["tail", () => import("../parts/tail/tail.ts")],
  ["completion", () => import("../parts/completion/completion.ts")],
];

/** Exit codes of every command. */
const FINE = 0;
const REFUSED = 1;
const BAD_USAGE = 2;

/**
 * Runs the command that the arguments name.
 * @param given arguments without interpreter and script
 * @returns the exit code: 0 success, 1 refused (a bad configuration, an unreachable peer), 2 bad usage
 */
export async function runProgram(given: readonly string[]): Promise<number> {
  // commander's own `help` prints the help of the first command that it is given.
  const args = given[0] === "help" && given.length > 2 ? [...given.slice(1), "--help"] : given;
  try {
    const program = await makeProgram(args[0]);
    await program.parseAsync(args, { from: "user" });
    return FINE;
  } catch (error) {
    if (error instanceof Refusal) {
      for (const line of error.lines) console.error(line);
      return REFUSED;
    }
    // The listener of stdout in main.ts has printed the reason, except when the reader of a pipe has left.
    if (error instanceof OutputClosed) return FINE;
    if (error instanceof InvalidArgumentError) console.error(`error: ${error.message}`);
    if (error instanceof CommanderError) return error.exitCode === 0 ? FINE : BAD_USAGE;
    throw error;
  }
}

/** Makes the program with the command that is named; with all commands for the help, the completion and the docs. */
export async function makeProgram(name = ""): Promise<Command> {
  const program = new Command("jobgate")
    .description("Turns x402 payments and webhooks into jobs for a runner in any language.")
    .version(version)
    .addHelpText("after", "\nExample:\n  $ jobgate check && jobgate serve")
    .showHelpAfterError("(add --help for all options)")
    .exitOverride()
    .hook("preAction", (_program, command) => readFlagTwins(command));
  const named = name === "completion" ? [] : COMMANDS.filter(([command]) => command === name);
  const modules = named.length === 0 ? COMMANDS : named;
  for (const module of await Promise.all(modules.map(([, load]) => load()))) module.addTo(program);
  return program;
}
