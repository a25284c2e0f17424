import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The checkout. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Folder outside of the sources, which keeps installed and built files for the next run. */
export const WORKSHOP = join(ROOT, "node_modules/.cache/jobgate-examples");
const BUILD_TIMEOUT_MS = 480_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** The native TypeScript compiler, which takes a third of the CPU of the one that ESLint needs. */
export const TSC = join(ROOT, "node_modules/typescript-native/bin/tsc");

/** Names of folders that are installed or built. */
const MADE = ["node_modules", "target", ".venv"];

/**
 * A Python example with its dependencies installed, and the messages of a .proto generated. One that several files use is
 * prepared before them, by test/full-setup.ts: they only find it.
 */
export async function preparePython(name: string, proto?: string): Promise<{ python: string; cwd: string }> {
  const cwd = join(WORKSHOP, "examples", name);
  const prepared = { python: join(cwd, ".venv/bin/python"), cwd };
  const note = join(cwd, ".venv/prepared");
  const sources = await textOf([join(ROOT, "examples", name), join(ROOT, "proto")]);
  if ((await readFile(note, "utf8").catch(() => "")) === sources) return prepared;

  await copyExample(name);
  const python = await createVenv(cwd);
  await run(python, ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"], cwd);
  const out = ["--python_out=.", "--grpc_python_out=."];
  if (proto !== undefined)
    await run(python, ["-m", "grpc_tools.protoc", "-I", "../../proto", ...out, proto], cwd);
  await writeFile(note, sources);
  return prepared;
}

/** Replaces a text in a file. @throws Error if the file does not have it */
export async function replaceIn(path: string, text: string, by: string): Promise<void> {
  const before = await readFile(path, "utf8");
  if (!before.includes(text)) throw new Error(`${path} has no ${text}`);
  await writeFile(path, before.replaceAll(text, by));
}

/** Returns the names and contents of all files in folders, without what was installed or built there. */
async function textOf(folders: readonly string[]): Promise<string> {
  const texts: string[] = [];
  for (const folder of folders) {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const paths = entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
    const isSource = (path: string) => !MADE.some((made) => path.startsWith(join(folder, made)));
    for (const path of paths.filter(isSource).sort()) texts.push(path, await readFile(path, "utf8"));
  }
  return texts.join("\n");
}

/** Creates a virtual environment in a folder, or finds it. @returns its Python */
export async function createVenv(folder: string): Promise<string> {
  await need("python3", ["-m", "venv", "--help"], "Python 3.10 or later with venv");
  await run("python3", ["-m", "venv", ".venv"], folder);
  return join(folder, ".venv/bin/python");
}

/** Copies an example beside a copy of the .proto, as far apart as the originals are. */
async function copyExample(name: string): Promise<string> {
  await copySources(join(ROOT, "proto"), join(WORKSHOP, "proto"));
  const folder = join(WORKSHOP, "examples", name);
  await copySources(join(ROOT, "examples", name), folder);
  return folder;
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
