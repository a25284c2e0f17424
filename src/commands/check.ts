import type { Command } from "commander";
import { pino } from "pino";
import type { Config, PeerProblem } from "../config/config.ts";
import { type Mistake, mistakeText } from "../config/mistakes.ts";
import { type ConfigSelection, loadFromOptions, Refusal } from "./input.ts";
import { addCommand, configOption, option, serviceIdOption } from "./options.ts";

export function addCheckCommand(program: Command): void {
  addCommand(program, {
    name: "check",
    description: "List every mistake in the configuration; exit 1 if there is one.",
    example: "check -c jobgate.toml --online",
    takes: [
      configOption(),
      serviceIdOption(),
      option(
        "--online",
        "also query the facilitator, each chain RPC, each rate source, the pricing engine and the store",
      ),
    ],
  }).action(check);
}

async function check(options: ConfigSelection & { readonly online?: boolean }): Promise<void> {
  const result = await loadFromOptions(options);
  if (!result.ok) return refuse(result.mistakes);
  for (const warning of result.warnings) console.error(`warning: ${mistakeText(warning)}`);
  const { problems, notes } = options.online ? await askPeers(result.config) : { problems: [], notes: [] };
  for (const note of notes) console.log(note);
  if (problems.length > 0)
    return refuse(problems.map(({ path, message }) => result.mistakeAt(path, message)));
  console.log(`${options.config}: ok (${summary(result.config)})`);
}

/** Prints the mistakes to stdout, because they are this command's output. */
function refuse(mistakes: readonly Mistake[]): never {
  for (const mistake of mistakes) console.log(mistakeText(mistake));
  throw new Refusal([]);
}

function summary({ x402, webhooks, push }: Config): string {
  const ownPrices = (x402?.jobs ?? []).filter(({ price }) => price !== undefined);
  return [
    `priced jobs: ${(x402?.jobPricing.size ?? 0) + ownPrices.length}`,
    `tokens: ${x402?.acceptedTokens.length ?? 0}`,
    `webhook endpoints: ${webhooks?.endpoints.length ?? 0}`,
    ...(push.length > 0 ? [`push targets: ${push.length}`] : []),
  ].join(", ");
}

/** Asks every peer in the configuration. Its modules are loaded only here, so that a plain check starts fast. */
async function askPeers(config: Config) {
  const [x402, ...problems] = await Promise.all([
    x402Findings(config),
    engineProblems(config),
    storeProblems(config),
  ]);
  return { problems: [...x402.problems, ...problems.flat()], notes: x402.notes };
}

async function x402Findings({ x402 }: Config) {
  if (x402 === undefined) return { problems: [], notes: [] };
  const { checkX402Peers } = await import("../x402/online-check.ts");
  return checkX402Peers(x402);
}

async function engineProblems({ pricingEngine, serviceId, x402 }: Config): Promise<PeerProblem[]> {
  if (pricingEngine === undefined) return [];
  const { findEngineProblems, jobsToAskFor } = await import("../pricing/online-check.ts");
  return findEngineProblems(pricingEngine, jobsToAskFor(serviceId, x402));
}

async function storeProblems({ store }: Config): Promise<PeerProblem[]> {
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
