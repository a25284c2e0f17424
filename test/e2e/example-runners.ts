import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { CARGO_TARGET, cargo, packCrate } from "../clients/cargo.ts";
import { buildWheel, createVenv, installPackages } from "./python.ts";
import { copySources, needGo, ROOT, replaceIn, run, WORKSHOP } from "./workshop.ts";

/** Command that starts an installed runner. */
export interface RunnerCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

/**
 * A client library, by its language. Its example `examples/runner-<language>/` is the runner in its README and a
 * manifest. Its test program `test/e2e/runner-programs/<language>/` is copied over the example and does {@link JOB}.
 */
export interface RunnerLibrary {
  /** README whose first block of code is the runner, from the root. */
  readonly readme: string;
  /** Language of that block as Markdown names it. */
  readonly fence: string;
  /** The runner's file in the example. */
  readonly source: string;
  /** Builds the package that users install, or finds it built. @returns its path */
  pack(): Promise<string>;
  /** Installs the package and the other dependencies of a runner in its folder, and builds it. */
  install(folder: string, library: string): Promise<RunnerCommand>;
}

/** Client libraries by language. */
export const LIBRARIES: Readonly<Record<string, RunnerLibrary>> = {
  rust: {
    readme: "clients/rust/README.md",
    fence: "rust",
    source: "src/main.rs",
    pack: packCrate,
    async install(folder, library) {
      await cp(join(library, "Cargo.lock"), join(folder, "Cargo.lock"));
      // Cargo takes packages of one name for the same, whatever their folder, and builds what is newer than the last build.
      await run("touch", ["src/main.rs"], folder);
      await replaceIn(join(folder, "Cargo.toml"), "../../clients/rust", library);
      await cargo(["build"], folder);
      await cp(join(CARGO_TARGET, "debug/runner-rust"), join(folder, "runner-rust"));
      return { command: join(folder, "runner-rust"), args: [], cwd: folder };
    },
  },

  node: {
    readme: "clients/node/README.md",
    fence: "js",
    source: "runner.js",
    async pack() {
      await mkdir(WORKSHOP, { recursive: true });
      // The tests have built it.
      const [packed] = JSON.parse(
        await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", WORKSHOP], ROOT),
      ) as [{ filename: string }];
      return join(WORKSHOP, packed.filename);
    },
    async install(folder, library) {
      await run(
        "npm",
        ["install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", library],
        folder,
      );
      return { command: process.execPath, args: ["runner.js"], cwd: folder };
    },
  },

  python: {
    readme: "clients/python/README.md",
    fence: "python",
    source: "runner.py",
    async pack() {
      const folder = join(WORKSHOP, "clients/python");
      for (const part of ["src", "dist"]) await rm(join(folder, part), { recursive: true, force: true });
      await copySources(join(ROOT, "clients/python"), folder);
      await buildWheel(folder);
      const wheel = (await readdir(join(folder, "dist"))).find((name) => name.endsWith(".whl"));
      return join(folder, "dist", wheel as string);
    },
    async install(folder, wheel) {
      const python = await createVenv(folder);
      // A changed library has the same version.
      await installPackages(python, ["--reinstall-package", "jobgate-runner", wheel], folder);
      return { command: python, args: ["runner.py"], cwd: folder };
    },
  },

  go: {
    readme: "clients/go/README.md",
    fence: "go",
    source: "main.go",
    async pack() {
      await needGo();
      return join(ROOT, "clients/go");
    },
    async install(folder, library) {
      await run(
        "go",
        ["mod", "edit", "-replace", `github.com/jobgate/jobgate/clients/go=${library}`],
        folder,
      );
      await run("go", ["mod", "tidy"], folder);
      // A data race that the detector finds makes the runner's exit code 66.
      await run("go", ["build", "-race", "-p", "2", "-o", "runner-go", "."], folder);
      return { command: join(folder, "runner-go"), args: [], cwd: folder };
    },
  },
};

/** Copies a library's example into a folder, test program or not, and installs it. Each library is built once. */
export async function installRunner(
  language: string,
  folder: string,
  program?: string,
): Promise<RunnerCommand> {
  const library = LIBRARIES[language] as RunnerLibrary;
  await copySources(join(ROOT, "examples", `runner-${language}`), folder);
  if (program !== undefined) await copySources(program, folder);
  const packed = packages.get(language) ?? library.pack();
  packages.set(language, packed);
  return library.install(folder, await packed);
}
const packages = new Map<string, Promise<string>>();

/** Installs a library's test program, once. */
function prepareProgram(language: string): Promise<RunnerCommand> {
  const folder = join(WORKSHOP, "runner-programs", language);
  const program =
    programs.get(language) ??
    installRunner(language, folder, join(ROOT, "test/e2e/runner-programs", language));
  programs.set(language, program);
  return program;
}
const programs = new Map<string, Promise<RunnerCommand>>();

/** The test programs' work on a body, as a program for run-each. */
const JOB = `body=$(cat); echo "delivery $JOBGATE_CALL_ID $JOBGATE_ATTEMPT" >&2
case $body in
  fail*) echo "asked to fail" >&2; exit 65 ;;
  retry*) if [ "$JOBGATE_ATTEMPT" = 1 ]; then echo "asked to retry" >&2; exit 75; fi ;;
  sleep:*) ms=\${body#sleep:}; sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))" ;;
esac
printf %s "$body" | rev`;

/** Runners by name, those that take longest to build first: a function that installs each from the registries. */
export const RUNNERS: Readonly<Record<string, () => Promise<RunnerCommand>>> = {
  ...Object.fromEntries(Object.keys(LIBRARIES).map((language) => [language, () => prepareProgram(language)])),

  async "python with asyncio"() {
    const runner = await prepareProgram("python");
    return { ...runner, args: [...runner.args, "asyncio"] };
  },

  async "run-each"() {
    const main = join(ROOT, "src/main.ts");
    const args = ["--import", import.meta.resolve("tsx"), main, "run-each", "--concurrency", "8"];
    return { command: process.execPath, args: [...args, "--", "sh", "-c", JOB], cwd: ROOT };
  },
};
