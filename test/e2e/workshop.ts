import { execFile } from "node:child_process";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The checkout. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Folder outside of the sources, which keeps installed and built files for the next run. */
export const WORKSHOP = join(ROOT, "node_modules/.cache/jobgate-examples");
const BUILD_TIMEOUT_MS = 900_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** The native TypeScript compiler, which takes a third of the CPU of the one that ESLint needs. */
export const TSC = join(ROOT, "node_modules/typescript-native/bin/tsc");

/** Names of folders that are installed or built. */
export const MADE = ["node_modules", "target", ".venv"];

/** Replaces a text in a file. @throws Error if the file does not have it */
export async function replaceIn(path: string, text: string, by: string): Promise<void> {
  const before = await readFile(path, "utf8");
  if (!before.includes(text)) throw new Error(`${path} has no ${text}`);
  await writeFile(path, before.replaceAll(text, by));
}

/** Copies a folder over another, without the files that were installed or built in it. */
export async function copySources(from: string, to: string): Promise<void> {
  const made = MADE.map((part) => join(from, part));
  await mkdir(to, { recursive: true });
  await cp(from, to, {
    recursive: true,
    preserveTimestamps: true,
    filter: (source) => !made.includes(source),
  });
}

/** Throws, naming what is missing, if a command does not run. */
export async function need(command: string, args: readonly string[], what: string): Promise<void> {
  await promisify(execFile)(command, args).catch((error: unknown) => {
    throw new Error(`This test needs ${what}: \`${command}\` does not run`, { cause: error });
  });
}

/** Throws if Go, or the C compiler that its race detector needs, is missing. */
export async function needGo(): Promise<void> {
  await need("go", ["version"], "Go, at least the version in clients/go/go.mod");
  await need("cc", ["--version"], "a C compiler, for Go's race detector");
}

/** Runs an installing or building command. @returns its standard output */
export async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const options = {
    cwd,
    env: {
      ...process.env,
      PATH: [join(ROOT, "node_modules/.bin"), process.env.PATH].join(delimiter),
      GOFLAGS: "-mod=mod -buildvcs=false",
      CARGO_TARGET_DIR: join(cwd, "target"),
      // A generator runs once: Java's second compiler would only cost.
      JAVA_TOOL_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
      ...env,
    },
    timeout: BUILD_TIMEOUT_MS,
    maxBuffer: MAX_OUTPUT_BYTES,
  };
  const ran = await promisify(execFile)(command, args, options).catch((error: { stderr?: string }) => {
    throw new Error(`${command} ${args.join(" ")} failed:\n${error.stderr?.slice(-4_000)}`, { cause: error });
  });
  return ran.stdout;
}
