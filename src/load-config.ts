import { type ConfigSource, type LoadConfigResult, loadConfigWith } from "./config/load-config.ts";
import { partKeys } from "./load-parts.ts";

/** Reads and checks a configuration for this build, with what its parts bring. */
export async function loadConfig(source: ConfigSource): Promise<LoadConfigResult> {
  return loadConfigWith(partKeys(), source);
}
