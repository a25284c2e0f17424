import type { Command } from "commander";
import type { Config } from "../config/config.ts";
import { type Mistake, mistakeText } from "../config/mistakes.ts";
import { configOption, isFlagSet, serviceIdOption } from "./options.ts";
import { loadFromOptions } from "./read-config.ts";
import { Refusal } from "./refusal.ts";

interface CheckOptions {
  readonly config: string;
  readonly serviceId?: bigint;
  readonly online?: boolean;
}

export function addCheckCommand(program: Command): void {
  program
    .command("check")
    .description("List every mistake in the configuration; exit 1 if there is any.")
    .addOption(configOption())
    .addOption(serviceIdOption())
    .option(
      "--online",
      "also ask the facilitator, each chain RPC, each rate source, the pricing engine and the store (env: JOBGATE_ONLINE)",
    )
    .addHelpText("after", "\nExample:\n  $ jobgate check -c jobgate.toml --online")
    .action(check);
}

async function check(options: CheckOptions): Promise<void> {
  const online = options.online ?? isFlagSet("JOBGATE_ONLINE");
  const result = await loadFromOptions(options);
  if (!result.ok) return refuse(result.mistakes);
  for (const warning of result.warnings) console.error(`warning: ${mistakeText(warning)}`);
  if (online) {
    const { findOnlineProblems } = await import("./online-check.ts");
    const problems = await findOnlineProblems(result.config);
    if (problems.length > 0)
      return refuse(problems.map(({ path, message }) => result.mistakeAt(path, message)));
  }
  console.log(`${options.config}: ok (${summary(result.config)})`);
}

/** The mistakes are what was asked for, so they go to stdout. */
function refuse(mistakes: readonly Mistake[]): never {
  for (const mistake of mistakes) console.log(mistakeText(mistake));
  throw new Refusal([]);
}

function summary({ x402, webhooks }: Config): string {
  return [
    `priced jobs: ${x402?.jobPricing.size ?? 0}`,
    `tokens: ${x402?.acceptedTokens.length ?? 0}`,
    `webhook endpoints: ${webhooks?.endpoints.length ?? 0}`,
  ].join(", ");
}
