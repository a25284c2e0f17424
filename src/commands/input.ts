import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";
import { buffer } from "node:stream/consumers";
import { InvalidArgumentError } from "commander";
import type { LoadConfigResult } from "../config/load-config.ts";
import type { Mistake } from "../config/mistakes.ts";
import type { PayingPart } from "../part.ts";
import type { Methods } from "../x402/methods/methods.ts";

/* Modules of src/config are loaded only when a command reads a configuration, because they load zod, which would take
   half of the time of `jobgate --help`. */

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
export async function loadFromOptions({ config, serviceId }: ConfigSelection): Promise<LoadConfigResult> {
  const { loadConfig } = await import("../load-config.ts");
  return loadConfig({ path: config, env: process.env, serviceId });
}

/**
 * Same as {@link loadFromOptions} for commands that need a valid configuration.
 * @throws Refusal with one line for each mistake
 */
export async function readConfig(
  selection: ConfigSelection,
): Promise<Extract<LoadConfigResult, { ok: true }>> {
  const result = await loadFromOptions(selection);
  if (result.ok) return result;
  throw await refusalOfMistakes(result.mistakes);
}

export async function refusalOfMistakes(mistakes: readonly Mistake[]): Promise<Refusal> {
  const { mistakeText } = await import("../config/mistakes.ts");
  return new Refusal(mistakes.map(mistakeText));
}

/** Loads the transfer methods of this build. */
export async function loadMethods(): Promise<Methods> {
  return (await import("../load-parts.ts")).loadMethods();
}

/** Loads the payers for networks of this build that are not EVM chains. */
export async function loadNetworkPayers(): Promise<readonly PayingPart[]> {
  return (await import("../load-parts.ts")).loadNetworkPayers();
}

/**
 * Reads the value of `--header`, which is a header. Returns its name in lower case.
 * @throws Refusal for any other text
 */
export function parseHeader(text: string): [name: string, value: string] {
  const [, name, value] = /^([^:\s]+):\s*(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new Refusal([`--header is "${text}"; expected Name: value`]);
  return [name.toLowerCase(), value];
}

/** Reads the file that `--body` names; `-` is stdin. @throws Refusal with the reason if it cannot be read */
export async function readBody(path: string): Promise<Buffer> {
  if (path === "-") return buffer(process.stdin);
  try {
    return await readFile(path);
  } catch (error) {
    const { fileErrorText } = await import("../config/named-files.ts");
    throw new Refusal([`${path} cannot be read: ${fileErrorText(error)}`]);
  }
}

/**
 * Returns the variable that `--key env:NAME` names. A key itself is never accepted as an argument, because other users
 * can list it and the shell's history keeps it. The message does not quote the argument.
 * @throws InvalidArgumentError for any other argument
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

/** Returns true if a person is there to answer. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks a question on the terminal; stdout stays free for output. @throws Refusal after Ctrl-C or Ctrl-D */
export async function ask(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise<never>((_, reject) => {
    terminal.once("close", () => reject(new Refusal(["", "Nothing was done."])));
  });
  try {
    return (await Promise.race([terminal.question(question), closed])).trim();
  } finally {
    terminal.close();
  }
}
