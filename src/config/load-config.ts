import { checkShape } from "./check-shape.ts";
import type { Config } from "./config.ts";
import { readConfigFiles, UNREADABLE } from "./config-files.ts";
import type { KeyPath, Mistake } from "./mistake.ts";
import { type MistakeList, makeMistakeList } from "./mistake-list.ts";
import { checkListeners } from "./rules/listeners.ts";
import { checkPrices } from "./rules/prices.ts";
import { checkPricingEngine } from "./rules/pricing-engine.ts";
import { checkStore } from "./rules/store.ts";
import { checkTlsFiles } from "./rules/tls-files.ts";
import { checkWebhooks } from "./rules/webhooks.ts";
import { checkX402 } from "./rules/x402.ts";
import { configSchema } from "./schema.ts";
import { toConfig } from "./to-config.ts";

export interface LoadConfigOptions {
  /** Path of the TOML file. */
  readonly path: string;
  /** Where `env:NAME` values are looked up. */
  readonly env: NodeJS.ProcessEnv;
  /** u64 from the command line; goes before `service_id` in the file. */
  readonly serviceId?: bigint;
}

export type LoadConfigResult =
  | {
      readonly ok: true;
      readonly config: Config;
      /** What will run, but perhaps not as meant. */
      readonly warnings: readonly Mistake[];
      /** For what only turns out in use: a mistake with the file and line of a key. */
      readonly mistakeAt: (path: KeyPath, message: string) => Mistake;
    }
  /** Every mistake there is, in the order of the files and lines. */
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** Reads and checks the whole configuration. Never rejects for anything that the operator could put right. */
export async function loadConfig(options: LoadConfigOptions): Promise<LoadConfigResult> {
  const mistakes = makeMistakeList();
  const raw = await readConfigFiles({ path: options.path, env: options.env, mistakes });
  const checked = checkShape(configSchema, raw, mistakes);
  if (checked !== undefined) {
    const file = options.serviceId === undefined ? checked : { ...checked, service_id: options.serviceId };
    checkStore(file, mistakes);
    checkListeners(file, mistakes);
    checkX402(file, mistakes);
    checkPrices(file, mistakes);
    checkWebhooks(file, mistakes);
    checkPricingEngine(file, mistakes);
    await checkTlsFiles(file, mistakes);
    warnOfMissingServiceId(file, mistakes);
  }
  const found = mistakes.mistakes();
  if (found.length > 0 || raw === UNREADABLE) return { ok: false, mistakes: found };
  const config = toConfig(configSchema.parse(raw), options.serviceId);
  return { ok: true, config, warnings: mistakes.warnings(), mistakeAt: mistakes.at };
}

function warnOfMissingServiceId(
  file: {
    service_id?: bigint | undefined;
    webhooks?: unknown;
    x402?: { service_id?: bigint | undefined } | undefined;
  },
  mistakes: MistakeList,
): void {
  if (file.webhooks === undefined || (file.service_id ?? file.x402?.service_id) !== undefined) return;
  mistakes.warn(["service_id"], "is missing, so webhook JobCalls carry service id 0");
}
