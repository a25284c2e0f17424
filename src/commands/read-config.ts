import { type LoadConfigResult, loadConfig } from "../config/load-config.ts";
import { mistakeText } from "../config/mistakes.ts";
import { Refusal } from "./refusal.ts";

interface ConfigOptions {
  readonly config: string;
  readonly serviceId?: bigint;
}

/** Loads the configuration that a command was pointed at, with the environment of this process. */
export function loadFromOptions({ config, serviceId }: ConfigOptions): Promise<LoadConfigResult> {
  return loadConfig({
    path: config,
    env: process.env,
    ...(serviceId === undefined ? {} : { serviceId }),
  });
}

/**
 * The same for commands that can do nothing with a configuration that has mistakes.
 * @throws Refusal with one line for each mistake
 */
export async function readConfig(options: ConfigOptions): Promise<Extract<LoadConfigResult, { ok: true }>> {
  const result = await loadFromOptions(options);
  if (!result.ok) throw new Refusal(result.mistakes.map(mistakeText));
  return result;
}
