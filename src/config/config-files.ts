import { basename, dirname } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { KeyPath, MistakeList, Place } from "./mistakes.ts";
import { fileErrorText, pathFrom, readNamedFile, readText } from "./named-files.ts";

/** Tables that can be in separate files. A string in place of the table names the file. */
const SEPARABLE_TABLES = ["x402", "webhooks", "job_pricing"] as const;

/** Value that replaces a value that could not be read. The mistake is already reported. */
export const UNREADABLE = Symbol("unreadable");

/**
 * Reads the configuration file, and the files that it names in place of a table, into one tree. Integers are bigint, so that
 * large integers keep their digits. A string `env:NAME` is replaced by the value of the variable, `file:PATH` by the file's
 * contents.
 */
export async function readConfigFiles(
  options: {
    readonly path: string;
    readonly toml?: string;
    readonly env: NodeJS.ProcessEnv;
    /** Keys of each table to read; the rest of the file is ignored. Default: everything. */
    readonly only?: Readonly<Record<string, readonly string[]>>;
  },
  mistakes: MistakeList,
): Promise<unknown> {
  const { path, toml, env, only } = options;
  const root =
    toml === undefined
      ? await readToml(path, [], mistakes)
      : parseToml({ file: path, toml, mountedAt: [] }, mistakes);
  if (isTable(root)) {
    const table = tableOfFile(root);
    if (table !== undefined) {
      mistakes.reportFile({ file: path, keyPath: "", message: howToInclude(table, path) });
      return UNREADABLE;
    }
  }
  const outside = { env, folder: dirname(path) };
  const tree = await expand(only === undefined ? root : pick(root, only), mistakes.at(), outside);
  if (!isTable(tree)) return UNREADABLE;
  for (const name of SEPARABLE_TABLES) {
    const reference = tree[name];
    if (typeof reference !== "string") continue;
    const table = await readToml(pathFrom(dirname(path), reference), [name], mistakes);
    tree[name] = await expand(table, mistakes.at(name), outside);
  }
  return tree;
}

function pick(root: unknown, only: Readonly<Record<string, readonly string[]>>): unknown {
  if (!isTable(root)) return root;
  const tables = Object.entries(root).filter(([name]) => name in only);
  return Object.fromEntries(
    tables.map(([name, table]) => {
      if (!isTable(table)) return [name, table];
      return [name, Object.fromEntries(Object.entries(table).filter(([key]) => only[name]?.includes(key)))];
    }),
  );
}

/** Keys that identify a table, because the configuration has no such keys at its top level. */
const TELLING_KEYS = {
  x402: ["facilitator_url", "facilitators", "accepted_tokens"],
  webhooks: ["endpoints"],
};

/** Returns the table that a file consists of; undefined for a whole configuration. Files for the SDK hold one table each. */
function tableOfFile(root: Record<string, unknown>): (typeof SEPARABLE_TABLES)[number] | undefined {
  if (TELLING_KEYS.x402.some((key) => key in root)) return "x402";
  if (TELLING_KEYS.webhooks.some((key) => key in root)) return "webhooks";
  const keys = Object.keys(root);
  return keys.length > 0 && keys.every((key) => /^[0-9]+$/.test(key)) ? "job_pricing" : undefined;
}

function howToInclude(table: string, path: string): string {
  const name = basename(path);
  return `holds the keys of the ${table} table; expected jobgate.toml beside it, with the line ${table} = ${JSON.stringify(name)} above its first [table]. Then run jobgate check -c jobgate.toml`;
}

/** Returns true for a TOML table, and false for a string, a date, an array and so on. */
export function isTable(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

async function readToml(file: string, mountedAt: KeyPath, mistakes: MistakeList): Promise<unknown> {
  const toml = await readText(file, mountedAt.length === 0).catch((error: unknown) => {
    const message = `cannot be read: ${fileErrorText(error)}; expected a TOML file`;
    mistakes.reportFile({ file, keyPath: mountedAt.join("."), message });
  });
  return toml === undefined ? UNREADABLE : parseToml({ file, toml, mountedAt }, mistakes);
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
    // Only the first line is used, because the rest quotes the file, which may hold a secret.
    const reason = (error.message.split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    const message = `is not valid TOML: ${reason}`;
    mistakes.reportFile({ file, line: error.line, keyPath: mountedAt.join("."), message });
    return UNREADABLE;
  }
}

/** Origins of values that are not in the configuration file itself. */
interface Outside {
  readonly env: NodeJS.ProcessEnv;
  /** Folder that relative paths start from. */
  readonly folder: string;
}

const REFERENCE = /^(env|file):(.*)$/s;

async function expand(value: unknown, place: Place, outside: Outside): Promise<unknown> {
  if (Array.isArray(value)) return Promise.all(value.map((item, i) => expand(item, place.at(i), outside)));
  if (isTable(value)) {
    // The object has no prototype, so that no key of the file has a meaning in JavaScript.
    const table: Record<string, unknown> = Object.create(null);
    for (const [key, item] of Object.entries(value)) table[key] = await expand(item, place.at(key), outside);
    return table;
  }
  const [, kind, name = ""] = (typeof value === "string" && REFERENCE.exec(value)) || [];
  if (kind === undefined) return value;
  return kind === "env" ? readVariable(name, place, outside) : readSecretFile(name, place, outside);
}

function readVariable(name: string, place: Place, { env }: Outside): unknown {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    // The value is not quoted, because it may be the secret itself.
    place.report('does not name an environment variable; expected "env:NAME"');
    return UNREADABLE;
  }
  const expanded = env[name];
  if (expanded !== undefined && expanded !== "") {
    place.comesFrom(`environment variable ${name}`);
    return expanded;
  }
  const state = expanded === undefined ? "not set" : "empty";
  place.report(`environment variable ${name} is ${state}; expected it to hold the value`);
  return UNREADABLE;
}

async function readSecretFile(name: string, place: Place, { folder }: Outside): Promise<unknown> {
  const file = pathFrom(folder, name);
  const expected = "file:PATH of a file that holds the value";
  const text = await readNamedFile(file, { place, expected, isSecret: true });
  // Editors and `echo` end a file with a line break, which never belongs to a secret.
  const value = text?.replace(/[\r\n]+$/, "");
  if (value === "") place.report(`names ${file}, which is empty; expected ${expected}`);
  place.comesFrom(`file ${file}`);
  return value || UNREADABLE;
}
