import { type ConfigSource, type LoadConfigResult, loadConfigWith } from "./config/load-config.ts";
import { partTables } from "./parts.ts";

/** Reads and checks a configuration for this build, with the tables of its parts. */
export async function loadConfig(source: ConfigSource): Promise<LoadConfigResult> {
  return loadConfigWith(partTables(), source);
}
