import type { Command } from "commander";
import { pino } from "pino";
import type { Config } from "../config/config.ts";
import type { KeyPath } from "../config/key-path.ts";
import { type Mistake, mistakeText } from "../config/mistakes.ts";
import { type ConfigSelection, loadFromOptions, Refusal } from "./input.ts";
import { configOption, isFlagSet, serviceIdOption } from "./options.ts";

export function addCheckCommand(program: Command): void {
  program
    .command("check")
    .description("List every mistake in the configuration; exit 1 if there is one.")
    .addOption(configOption())
    .addOption(serviceIdOption())
    .option(
      "--online",
      "also query the facilitator, each chain RPC, each rate source, the pricing engine and the store (env: JOBGATE_ONLINE)",
    )
    .addHelpText("after", "\nExample:\n  $ jobgate check -c jobgate.toml --online")
    .action(check);
}

async function check(options: ConfigSelection & { readonly online?: boolean }): Promise<void> {
  const online = options.online ?? isFlagSet("JOBGATE_ONLINE");
  const result = await loadFromOptions(options);
  if (!result.ok) return refuse(result.mistakes);
  for (const warning of result.warnings) console.error(`warning: ${mistakeText(warning)}`);
  const problems = online ? await findOnlineProblems(result.config) : [];
  if (problems.length > 0)
    return refuse(problems.map(({ path, message }) => result.mistakeAt(path, message)));
  console.log(`${options.config}: ok (${summary(result.config)})`);
}

/** Prints the mistakes to stdout, because they are this command's output. */
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

/** A mistake that shows only when a peer is asked. The message never holds a URL, which may hold a key. */
interface OnlineProblem {
  readonly path: KeyPath;
  readonly message: string;
}

/** Asks every peer in the configuration. The modules that ask are loaded only here, so that a plain check starts fast. */
async function findOnlineProblems(config: Config): Promise<OnlineProblem[]> {
  const problems = await Promise.all([x402Problems(config), engineProblems(config), storeProblems(config)]);
  return problems.flat();
}

async function x402Problems({ x402 }: Config): Promise<OnlineProblem[]> {
  if (x402 === undefined) return [];
  const { findX402Problems } = await import("../x402/online-check.ts");
  return findX402Problems(x402);
}

async function engineProblems({ pricingEngine, serviceId, x402 }: Config): Promise<OnlineProblem[]> {
  if (pricingEngine === undefined) return [];
  const { findEngineProblems, jobsToAskFor } = await import("../pricing/online-check.ts");
  return findEngineProblems(pricingEngine, jobsToAskFor(serviceId, x402));
}

async function storeProblems({ store }: Config): Promise<OnlineProblem[]> {
  const [{ openStore }, { StoreInUseError }] = await Promise.all([
    import("../open-store.ts"),
    import("../store/store.ts"),
  ]);
  try {
    const opened = await openStore({ ...store, connectTimeoutMs: 0 }, pino({ level: "silent" }));
    await opened.close();
    return [];
  } catch (error) {
    // The gateway that runs on the file has opened it.
    if (error instanceof StoreInUseError) return [];
    // Drivers keep the password of a URL out of their messages; where there is a code, it says enough.
    const { code } = error as NodeJS.ErrnoException;
    const reason = code ?? (error instanceof Error ? error.message : "unknown");
    return [{ path: ["store", "url"], message: `cannot be opened: ${reason}` }];
  }
}
