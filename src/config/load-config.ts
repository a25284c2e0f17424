import { checkShape } from "./check-shape.ts";
import { type Config, type ConfigTables, configSchema, toConfig } from "./config.ts";
import { readConfigFiles } from "./config-files.ts";
import type { KeyPath } from "./key-path.ts";
import { type Mistake, MistakeList } from "./mistakes.ts";
import { checkListeners } from "./rules/listeners.ts";
import { checkPrices } from "./rules/prices.ts";
import { checkPricingEngine } from "./rules/pricing-engine.ts";
import { checkStore } from "./rules/store.ts";
import { checkTlsFiles } from "./rules/tls-files.ts";
import { checkWebhooks } from "./rules/webhooks.ts";
import { checkX402 } from "./rules/x402.ts";

export type LoadConfigResult =
  | {
      readonly ok: true;
      readonly config: Config;
      /** Things that work, but probably not as the operator intends. */
      readonly warnings: readonly Mistake[];
      /** Makes a mistake with the file and line of a key, for problems that only show in use. */
      readonly mistakeAt: (path: KeyPath, message: string) => Mistake;
    }
  /** Every mistake, in the order of the files and lines. */
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** Reads and checks the whole configuration. Never rejects for anything that the operator can correct. */
export async function loadConfig(options: {
  /** Path of the TOML file. */
  readonly path: string;
  /** Contents, if there is no file; `path` then names them in mistakes, and files that they name are relative to it. */
  readonly toml?: string;
  /** Environment that `env:NAME` values are read from. */
  readonly env: NodeJS.ProcessEnv;
  /** u64 from the command line; takes precedence over `service_id` in the file. */
  readonly serviceId?: bigint;
}): Promise<LoadConfigResult> {
  const { serviceId } = options;
  const mistakes = new MistakeList();
  const raw = await readConfigFiles(options, mistakes);
  const checked = checkShape(configSchema, raw, mistakes);
  const tables = checked && (serviceId === undefined ? checked : { ...checked, serviceId });
  if (tables !== undefined) {
    checkStore(tables, mistakes);
    checkListeners(tables, mistakes);
    checkX402(tables, mistakes);
    checkPrices(tables, mistakes);
    checkWebhooks(tables, mistakes);
    checkPricingEngine(tables, mistakes);
    await checkTlsFiles(tables, mistakes);
    warnOfMissingServiceId(tables, mistakes);
  }
  const found = mistakes.mistakes();
  if (found.length > 0 || tables === undefined) return { ok: false, mistakes: found };
  return {
    ok: true,
    // Nothing was reported, so nothing was left out.
    config: toConfig(tables as Parameters<typeof toConfig>[0]),
    warnings: mistakes.warnings(),
    mistakeAt: (path, message) => mistakes.at(path, message),
  };
}

function warnOfMissingServiceId({ serviceId, x402, webhooks }: ConfigTables, mistakes: MistakeList): void {
  if (webhooks === undefined || (serviceId ?? x402?.serviceId) !== undefined) return;
  mistakes.warn(["service_id"], "is missing, so webhook JobCalls carry service id 0");
}
