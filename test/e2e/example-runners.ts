import { execFile } from "node:child_process";
import { cp, mkdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Folder outside of the sources, which keeps installed and built files for the next run. */
const WORKSHOP = join(ROOT, "node_modules/.cache/jobgate-examples");
const BUILD_TIMEOUT_MS = 480_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** Command that starts an installed runner. */
export interface RunnerCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

/** The examples' work on a body, as a program for run-each. */
const JOB = `body=$(cat); echo "delivery $JOBGATE_CALL_ID $JOBGATE_ATTEMPT" >&2
case $body in
  fail*) echo "asked to fail" >&2; exit 65 ;;
  retry*) if [ "$JOBGATE_ATTEMPT" = 1 ]; then echo "asked to retry" >&2; exit 75; fi ;;
  sleep:*) ms=\${body#sleep:}; sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))" ;;
esac
printf %s "$body" | rev`;

/** Runners by language. Each installs its dependencies from the registries, builds, and returns the command. */
export const RUNNERS: Readonly<Record<string, () => Promise<RunnerCommand>>> = {
  async "run-each"() {
    const main = join(ROOT, "src/main.ts");
    const args = ["--import", import.meta.resolve("tsx"), main, "run-each", "--concurrency", "8"];
    return { command: process.execPath, args: [...args, "--", "sh", "-c", JOB], cwd: ROOT };
  },

  async node() {
    const cwd = await copyExample("runner-node");
    await run("npm", ["install", "--no-audit", "--no-fund", "--no-package-lock"], cwd);
    return { command: process.execPath, args: ["runner.js"], cwd };
  },

  async python() {
    const { python, cwd } = await preparePython("runner-python", "jobgate/v1/runner.proto");
    return { command: python, args: ["runner.py"], cwd };
  },

  async go() {
    const cwd = await copyExample("runner-go");
    await need("go", ["version"], "Go, at least the version in examples/runner-go/go.mod");
    await run("buf", ["generate"], cwd);
    await run("go", ["build", "-p", "2", "-o", "runner-go", "."], cwd);
    return { command: join(cwd, "runner-go"), args: [], cwd };
  },

  async rust() {
    const cwd = await copyExample("runner-rust");
    await need("cargo", ["--version"], "Rust with cargo, edition 2024");
    await run("cargo", ["build", "-j2"], cwd);
    return { command: join(cwd, "target/debug/runner-rust"), args: [], cwd };
  },
};

/** A Python example with its dependencies installed and the messages of one .proto generated. */
export async function preparePython(name: string, proto: string): Promise<{ python: string; cwd: string }> {
  const cwd = await copyExample(name);
  await need("python3", ["-m", "venv", "--help"], "Python 3.10 or later with venv");
  await run("python3", ["-m", "venv", ".venv"], cwd);
  const python = join(cwd, ".venv/bin/python");
  await run(python, ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"], cwd);
  const out = ["--python_out=.", "--grpc_python_out=."];
  await run(python, ["-m", "grpc_tools.protoc", "-I", "../../proto", ...out, proto], cwd);
  return { python, cwd };
}

/** Copies an example beside a copy of the .proto, as far apart as the originals are. */
async function copyExample(name: string): Promise<string> {
  const folder = join(WORKSHOP, "examples", name);
  await mkdir(folder, { recursive: true });
  const options = { recursive: true, preserveTimestamps: true };
  await cp(join(ROOT, "proto"), join(WORKSHOP, "proto"), options);
  // Skips files installed or built in the original: the test installs and builds its own.
  const made = ["node_modules", "target", ".venv", "jobgate", "jobgatev1", "pricing_engine"].map((part) =>
    join(ROOT, "examples", name, part),
  );
  await cp(join(ROOT, "examples", name), folder, { ...options, filter: (source) => !made.includes(source) });
  return folder;
}

async function need(command: string, args: readonly string[], what: string): Promise<void> {
  await promisify(execFile)(command, args).catch((error: unknown) => {
    throw new Error(`This test needs ${what}: \`${command}\` does not run`, { cause: error });
  });
}

async function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  const env = {
    ...process.env,
    PATH: [join(ROOT, "node_modules/.bin"), process.env.PATH].join(delimiter),
    GOFLAGS: "-mod=mod -buildvcs=false",
    CARGO_TARGET_DIR: join(cwd, "target"),
  };
  const options = { cwd, env, timeout: BUILD_TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES };
  await promisify(execFile)(command, args, options).catch((error: { stderr?: string }) => {
    throw new Error(`${command} ${args.join(" ")} failed:\n${error.stderr?.slice(-4_000)}`, { cause: error });
  });
}
