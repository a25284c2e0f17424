import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { spawnTethered } from "../../src/node/tethered-process.ts";
import { runJobgate } from "../commands/run-jobgate.ts";
import { startJobgate } from "../helpers/jobgate-process.ts";
import { WEBHOOKS_CONFIG } from "../helpers/small-configs.ts";
import type { Bundles } from "./bundles.ts";
import { deleteParts } from "./delete-parts.ts";
import { foreignKeys } from "./foreign-keys.ts";
import { partsOf, ROOT } from "./without.ts";

/** Files and folders that the program is bundled from. */
const SOURCES = ["src", "package.json", "tsconfig.json", "bundle.ts", "LICENSE"];
/** Folders that a copy for tests does not have. */
const LEFT_OUT = [".git", "dist", "node_modules"];

/** Bundles and starts jobgate without a part. @returns what breaks */
export async function problemWithout(name: string, bundles: Bundles): Promise<string | undefined> {
  try {
    await bundles.makeWithout(partsOf(name));
    return await startProblem(name, bundles.folder);
  } catch (error) {
    return String(error);
  }
}

/**
 * Deletes a part in a copy of the sources, as a person does, then builds and starts jobgate there.
 * @param tests folders of tests that pass in the copy
 * @returns what breaks
 */
export async function problemInCopyWithout(
  name: string,
  tests: readonly string[],
): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), `jobgate-without-${name}-`));
  try {
    const copied =
      tests.length === 0 ? SOURCES : readdirSync(ROOT).filter((path) => !LEFT_OUT.includes(path));
    for (const path of copied) cpSync(join(ROOT, path), join(folder, path), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    deleteParts(name, folder);
    return (
      (await failure(folder, "--import", "tsx", "bundle.ts")) ??
      (await startProblem(name, folder)) ??
      (tests.length === 0 ? undefined : await failure(folder, VITEST, "run", "--reporter=dot", ...tests))
    );
  } catch (error) {
    return String(error);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const VITEST = "node_modules/vitest/vitest.mjs";

/** @returns what Node prints if it fails */
async function failure(cwd: string, ...args: string[]): Promise<string | undefined> {
  const child = spawnTethered({ command: process.execPath, args, env: process.env, cwd });
  const code = new Promise<number | null>((resolve) => void child.once("close", resolve));
  const output = await Promise.all([text(child.stdout), text(child.stderr)]);
  return (await code) === 0 ? undefined : `${args.join(" ")}:\n${output.join("")}`;
}

async function startProblem(name: string, folder: string): Promise<string | undefined> {
  return (await serveProblem(folder)) ?? (await acceptedKeys(name, folder));
}
/** Checks and serves a configuration of the core. */
async function serveProblem(folder: string): Promise<string | undefined> {
  const { code, output } = await check(folder, WEBHOOKS_CONFIG);
  if (code !== 0) return `jobgate check:\n${output}`;
  const listeners = ["runner", "webhooks"];
  const jobgate = await startJobgate({ from: { builtIn: folder }, config: WEBHOOKS_CONFIG, listeners });
  jobgate.kill();
  const exit = await jobgate.exited;
  await jobgate.stop();
  return exit.code === 0 ? undefined : `jobgate serve:\n${jobgate.logs.join("\n")}`;
}

/** @returns what `jobgate check` prints if it accepts a key of the part */
async function acceptedKeys(name: string, folder: string): Promise<string | undefined> {
  for (const { toml, refusals } of await foreignKeys(name)) {
    const { code, output } = await check(folder, `${WEBHOOKS_CONFIG}${toml}`);
    const missing = refusals.filter((refusal) => !output.includes(refusal));
    if (code !== 1 || missing.length > 0) return `no "${missing.join('", no "')}" in:\n${output}`;
  }
  return undefined;
}

async function check(folder: string, config: string): Promise<{ code: number | null; output: string }> {
  const files = { "jobgate.toml": config };
  const { code, stdout, stderr } = await runJobgate(["check"], { files, from: { builtIn: folder } });
  return { code, output: `${stdout}${stderr}` };
}
