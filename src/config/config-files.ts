import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { KeyPath } from "./key-path.ts";
import type { MistakeList } from "./mistakes.ts";

/** Tables that can be in a file of their own, named by a string in their place. */
const SEPARABLE_TABLES = ["x402", "webhooks", "job_pricing"] as const;

/** Takes the place of a value that could not be read. Its mistake is reported already. */
export const UNREADABLE = Symbol("unreadable");

/**
 * Reads the configuration file, and the files that it names in place of a table, into one tree. Integers are bigint, so
 * that none loses digits. A string `env:NAME` is replaced by the value of the variable.
 */
export async function readConfigFiles(
  { path, toml, env }: { readonly path: string; readonly toml?: string; readonly env: NodeJS.ProcessEnv },
  mistakes: MistakeList,
): Promise<unknown> {
  const root =
    toml === undefined
      ? await readToml(path, [], mistakes)
      : parseToml({ file: path, toml, mountedAt: [] }, mistakes);
  const tree = expandEnv(root, [], env, mistakes);
  if (!isTable(tree)) return UNREADABLE;
  for (const name of SEPARABLE_TABLES) {
    const reference = tree[name];
    if (typeof reference !== "string") continue;
    const file = isAbsolute(reference) ? reference : join(dirname(path), reference);
    tree[name] = expandEnv(await readToml(file, [name], mistakes), [name], env, mistakes);
  }
  return tree;
}

/** Returns true for a TOML table, and false for a string, a date, an array and so on. */
export function isTable(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

async function readToml(file: string, mountedAt: KeyPath, mistakes: MistakeList): Promise<unknown> {
  let toml: string;
  try {
    toml = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(file));
  } catch (error) {
    const reason = error instanceof TypeError ? "it is not UTF-8" : fileErrorText(error);
    const message = `cannot be read: ${reason}; expected a TOML file`;
    mistakes.reportFile({ file, keyPath: mountedAt.join("."), message });
    return UNREADABLE;
  }
  return parseToml({ file, toml, mountedAt }, mistakes);
}

function parseToml(
  source: { readonly file: string; readonly toml: string; readonly mountedAt: KeyPath },
  mistakes: MistakeList,
): unknown {
  const { file, toml, mountedAt } = source;
  mistakes.addSource(source);
  try {
    return parse(toml, { integersAsBigInt: true });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The first line only: the rest quotes the file, which may hold a secret.
    const reason = (error.message.split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    const message = `is not valid TOML: ${reason}`;
    mistakes.reportFile({ file, line: error.line, keyPath: mountedAt.join("."), message });
    return UNREADABLE;
  }
}

/** Reason why a file cannot be used: `no such file`, `permission denied`. */
export function fileErrorText(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES" || code === "EPERM") return "permission denied";
  if (code === "EISDIR") return "it is a directory";
  return code ?? String(error);
}

const ENV_PREFIX = "env:";

function expandEnv(value: unknown, path: KeyPath, env: NodeJS.ProcessEnv, mistakes: MistakeList): unknown {
  if (Array.isArray(value)) return value.map((item, i) => expandEnv(item, [...path, i], env, mistakes));
  if (isTable(value)) {
    // Without a prototype, so that no key of the file means anything to JavaScript.
    const table: Record<string, unknown> = Object.create(null);
    for (const [key, item] of Object.entries(value))
      table[key] = expandEnv(item, [...path, key], env, mistakes);
    return table;
  }
  if (typeof value !== "string" || !value.startsWith(ENV_PREFIX)) return value;
  const name = value.slice(ENV_PREFIX.length);
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    // Not quoted, because it may be the secret itself.
    mistakes.report(path, 'does not name an environment variable; expected "env:NAME"');
    return UNREADABLE;
  }
  const expanded = env[name];
  if (expanded !== undefined && expanded !== "") return expanded;
  const state = expanded === undefined ? "not set" : "empty";
  mistakes.report(path, `environment variable ${name} is ${state}; expected it to hold the value`);
  return UNREADABLE;
}
