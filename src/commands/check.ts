import type { Command } from "commander";
import { pino } from "pino";
import type { Config, PeerFindings, PeerProblem } from "../config/config.ts";
import type { LoadConfigResult } from "../config/load-config.ts";
import { type Mistake, mistakeText } from "../config/mistakes.ts";
import { defined } from "../core/objects.ts";
import { type ConfigSelection, loadFromOptions, Refusal } from "./input.ts";
import { addCommand, configOption, jsonOption, option, serviceIdOption } from "./options.ts";

export function addTo(program: Command): void {
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
      option("--listing", "also say which catalogues would list the jobs, and why they would not"),
      jsonOption("print one JSON document with every mistake and warning"),
    ],
  }).action(check);
}

interface CheckOptions extends ConfigSelection {
  readonly online?: boolean;
  readonly listing?: boolean;
  readonly json?: boolean;
}

async function check(options: CheckOptions): Promise<void> {
  const result = await loadFromOptions(options);
  const findings = result.ok
    ? await findingsOf(result, options)
    : { mistakes: result.mistakes, warnings: [], notes: [] };
  if (options.json) printJson(findings);
  else printText(findings);
  if (findings.mistakes.length > 0) throw new Refusal([]);
  if (result.ok && !options.json) console.log(`${options.config}: ok (${summary(result.config)})`);
}

interface Findings {
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
  /** Facts about the peers, such as what a facilitator supports, and about catalogues. */
  readonly notes: readonly string[];
}

async function findingsOf(
  { config, warnings, mistakeAt }: Extract<LoadConfigResult, { ok: true }>,
  { online = false, listing = false }: CheckOptions,
): Promise<Findings> {
  const { problems, notes } = online ? await queryPeers(config) : { problems: [], notes: [] };
  const listed = listing ? await (await import("../load-parts.ts")).checkListing(config) : [];
  const mistakes = problems.map(({ path, message }) => mistakeAt(path, message));
  return { mistakes, warnings, notes: [...notes, ...listed] };
}

/** Prints the mistakes to stdout, because they are this command's output. */
function printText({ mistakes, warnings, notes }: Findings): void {
  for (const warning of warnings) console.error(`warning: ${mistakeText(warning)}`);
  for (const note of notes) console.log(note);
  for (const mistake of mistakes) console.log(mistakeText(mistake));
}

function printJson({ mistakes, warnings, notes }: Findings): void {
  const problem =
    (severity: "error" | "warning") =>
    ({ keyPath: path, file, line, message, suggestion }: Mistake) =>
      defined({ severity, path, file, line, message, suggestion });
  const problems = [...mistakes.map(problem("error")), ...warnings.map(problem("warning"))];
  console.log(JSON.stringify({ ok: mistakes.length === 0, problems, notes }));
}

function summary({ x402, webhooks, parts }: Config): string {
  const ownPrices = (x402?.jobs ?? []).filter(({ price }) => price !== undefined);
  return [
    `priced jobs: ${(x402?.jobPricing.size ?? 0) + ownPrices.length}`,
    `tokens: ${x402?.acceptedTokens.filter(({ offered }) => offered === undefined).length ?? 0}`,
    `webhook endpoints: ${webhooks?.endpoints.length ?? 0}`,
    ...[...parts].flatMap(([table, own]) => table.summary(own) ?? []),
  ].join(", ");
}

/** Queries every peer in the configuration. Its modules are loaded only here, so that a plain check starts fast. */
async function queryPeers(config: Config): Promise<PeerFindings> {
  const [{ checkPartPeers }, { inspectStore }] = await Promise.all([
    import("../load-parts.ts"),
    import("../open-store.ts"),
  ]);
  const [x402, parts, store] = await Promise.all([
    x402Findings(config),
    checkPartPeers(config, () => inspectStore(config.store)),
    storeProblems(config),
  ]);
  const found = [x402, ...parts, { notes: [], problems: store }];
  return {
    notes: found.flatMap(({ notes }) => notes),
    problems: found.flatMap(({ problems }) => problems),
  };
}

async function x402Findings({ x402 }: Config): Promise<PeerFindings> {
  if (x402 === undefined) return { problems: [], notes: [] };
  const [{ checkX402Peers }, { loadMethods }] = await Promise.all([
    import("../x402/online-check.ts"),
    import("../load-parts.ts"),
  ]);
  return checkX402Peers(x402, await loadMethods());
}

async function storeProblems({ store }: Config): Promise<PeerProblem[]> {
  const [{ tryStore }, { StoreInUseError }] = await Promise.all([
    import("../open-store.ts"),
    import("../store/store.ts"),
  ]);
  try {
    await tryStore(store, pino({ level: "silent" }));
    return [];
  } catch (error) {
    // The store is in use, so the gateway that runs on the file can open it.
    if (error instanceof StoreInUseError) return [];
    // Drivers keep the password of a URL out of their messages. If there is an error code, it suffices.
    const { code } = error as NodeJS.ErrnoException;
    const reason = code ?? (error instanceof Error ? error.message : "unknown");
    return [{ path: ["store", "url"], message: `cannot be opened: ${reason}` }];
  }
}
