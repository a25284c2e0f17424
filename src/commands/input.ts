import { readFile } from "node:fs/promises";
import { InvalidArgumentError } from "commander";
import { fileErrorText } from "../config/config-files.ts";
import { type LoadConfigResult, loadConfig } from "../config/load-config.ts";
import { mistakeText } from "../config/mistakes.ts";

/** Ends a command with exit code 1 and these lines on stderr. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

/** Options that select a configuration. */
export interface ConfigSelection {
  readonly config: string;
  readonly serviceId?: bigint;
}

/** Loads the configuration file, with the environment of this process. */
export function loadFromOptions({ config, serviceId }: ConfigSelection): Promise<LoadConfigResult> {
  return loadConfig({
    path: config,
    env: process.env,
    ...(serviceId === undefined ? {} : { serviceId }),
  });
}

/**
 * Same as {@link loadFromOptions} for commands that need a valid configuration.
 * @throws Refusal with one line for each mistake
 */
export async function readConfig(
  selection: ConfigSelection,
): Promise<Extract<LoadConfigResult, { ok: true }>> {
  const result = await loadFromOptions(selection);
  if (!result.ok) throw new Refusal(result.mistakes.map(mistakeText));
  return result;
}

/** Reads the file that `--body` names. @throws Refusal with the reason if it cannot be read */
export async function readBody(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw new Refusal([`${path} cannot be read: ${fileErrorText(error)}`]);
  }
}

/**
 * Returns the variable that `--key env:NAME` names. A key itself is never accepted as an argument, because other users
 * can list it and the shell's history keeps it. The message does not quote the argument.
 * @throws InvalidArgumentError for anything else
 */
export function keyVariable(option: string): string {
  const name = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(option)?.[1];
  if (name === undefined) throw new InvalidArgumentError("--key: expected env:NAME, never the key itself.");
  return name;
}

/** Reads a private key from the environment. @throws Refusal if the variable is unset or empty */
export function readKey(variable: string): string {
  const value = process.env[variable] ?? "";
  if (value === "")
    throw new Refusal([`environment variable ${variable} is not set; expected a private key`]);
  return value;
}
