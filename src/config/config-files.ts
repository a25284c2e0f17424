import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { MistakeList } from "./mistake-list.ts";

/** Tables that may stand in a file of their own, named by a string in their place. */
const SEPARABLE_TABLES = ["x402", "webhooks", "job_pricing"] as const;

/** Stands where a value could not be got at, which is reported already: nothing more is said about it. */
export const UNREADABLE = Symbol("unreadable");

/** A TOML value, with integers as bigint so that none loses digits. */
export type RawValue = unknown;

/**
 * Reads the configuration file, and the files that it names in place of a table, into one tree.
 * `env:NAME` is replaced by the variable's value wherever a string stands.
 */
export async function readConfigFiles(options: {
  path: string;
  env: NodeJS.ProcessEnv;
  mistakes: MistakeList;
}): Promise<RawValue> {
  const { path, env, mistakes } = options;
  const root = await readToml(path, [], mistakes);
  if (!isTable(root)) return UNREADABLE;
  const tree = expandEnv(root, [], env, mistakes);
  if (!isTable(tree)) return UNREADABLE;
  for (const name of SEPARABLE_TABLES) {
    const reference = tree[name];
    if (typeof reference !== "string") continue;
    const table = await readToml(
      isAbsolute(reference) ? reference : join(dirname(path), reference),
      [name],
      mistakes,
    );
    tree[name] = expandEnv(table, [name], env, mistakes);
  }
  return tree;
}

/** Whether a value is a TOML table (and not a string, a date, an array …). */
export function isTable(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

async function readToml(
  file: string,
  mountedAt: readonly string[],
  mistakes: MistakeList,
): Promise<RawValue> {
  const keyPath = mountedAt.join(".");
  let toml: string;
  try {
    toml = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(file));
  } catch (error) {
    const reason = error instanceof TypeError ? "it is not UTF-8" : fileErrorText(error);
    mistakes.add({ file, keyPath, message: `cannot be read: ${reason}; expected a TOML file` });
    return UNREADABLE;
  }
  mistakes.sources.push({ file, toml, mountedAt });
  try {
    return parse(toml, { integersAsBigInt: true });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // Only the first line: the rest quotes the file, and a secret may stand there.
    const reason = (error.message.split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    mistakes.add({ file, line: error.line, keyPath, message: `is not valid TOML: ${reason}` });
    return UNREADABLE;
  }
}

/** Why a file cannot be used, in words: `no such file`, `permission denied`. */
export function fileErrorText(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EISDIR") return "it is a directory";
  return code ?? String(error);
}

const ENV_PREFIX = "env:";

function expandEnv(
  value: RawValue,
  path: readonly (string | number)[],
  env: NodeJS.ProcessEnv,
  mistakes: MistakeList,
): RawValue {
  if (Array.isArray(value)) return value.map((item, i) => expandEnv(item, [...path, i], env, mistakes));
  if (isTable(value)) {
    const table: Record<string, unknown> = Object.create(null);
    for (const [key, item] of Object.entries(value))
      table[key] = expandEnv(item, [...path, key], env, mistakes);
    return table;
  }
  if (typeof value !== "string" || !value.startsWith(ENV_PREFIX)) return value;
  const name = value.slice(ENV_PREFIX.length);
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    // Not quoted: it may be the secret itself.
    mistakes.report(path, 'does not name an environment variable; expected "env:NAME"');
    return UNREADABLE;
  }
  const expanded = env[name];
  if (expanded !== undefined && expanded !== "") return expanded;
  const state = expanded === undefined ? "not set" : "empty";
  mistakes.report(path, `environment variable ${name} is ${state}; expected it to hold the value`);
  return UNREADABLE;
}
