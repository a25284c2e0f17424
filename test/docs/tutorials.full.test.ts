import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished, test } from "vitest";
import { ROOT } from "../helpers/bundle.ts";
import { until } from "../helpers/until.ts";

/*
 * Does what a tutorial says, in a fresh folder in which jobgate is installed: writes the files that its blocks name, and
 * runs its `sh` blocks line by line. A comment says what a line prints, or that the command is kept running, until the page
 * starts the same command again. Tutorials name the usual ports, so nothing else may listen there.
 */

interface Step {
  readonly command: string;
  /** Text that the command has to print. */
  readonly prints: string | undefined;
  readonly isKept: boolean;
}

function readStep(line: string): Step {
  const [command = "", comment = ""] = line.split(/ {2,}# /);
  const [, prints] = /^prints (.+)$/.exec(comment) ?? [];
  return { command: command.trim(), prints, isKept: comment === "keep it running" };
}

/** Makes a folder as `npm install` of jobgate's package would leave it. */
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "jobgate-tutorial-"));
  mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
  symlinkSync(ROOT, join(folder, "node_modules/jobgate"));
  symlinkSync("../jobgate/dist/main.js", join(folder, "node_modules/.bin/jobgate"));
  return folder;
}

/** Runs a command of a shell. npx passes no signals on, so the program is started without it. */
function shellCommand(command: string): string {
  return command.replaceAll(/npx (?:--no-install )?jobgate/g, "exec-jobgate");
}

/** Ends a command as Ctrl-C does. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.pid === undefined) return;
  process.kill(-child.pid, "SIGTERM");
  await once(child, "close");
}

async function runTutorial(page: string): Promise<void> {
  const folder = makeFolder();
  writeFileSync(
    join(folder, "node_modules/.bin/exec-jobgate"),
    `#!/bin/sh\nexec "${process.execPath}" "${join(ROOT, "dist/main.js")}" "$@"\n`,
    { mode: 0o755 },
  );
  /** Processes that are kept running, by their command without its options. */
  const kept = new Map<string, ChildProcess>();
  const exported: Record<string, string> = {};
  const path = `${join(folder, "node_modules/.bin")}:${process.env.PATH}`;
  onTestFinished(async () => {
    for (const child of [...kept.values()].reverse()) await end(child);
    rmSync(folder, { recursive: true });
  });

  const run = async ({ command, prints = "" }: Step) => {
    const env = { ...process.env, ...exported, PATH: path };
    const options = { cwd: folder, env };
    return new Promise<{ ok: boolean; text: string }>((resolve) => {
      execFile("sh", ["-c", shellCommand(command)], options, (error, stdout, stderr) => {
        const text = `${stdout}${stderr}`;
        resolve({ ok: error === null && text.includes(prints), text });
      });
    });
  };

  const text = readFileSync(join(ROOT, "docs", page), "utf8");
  for (const [, kind, block = ""] of text.matchAll(/^```(sh|js)\n([\s\S]*?)^```$/gm)) {
    const [, file] = /^\/\/ (\S+)\n/.exec(block) ?? [];
    if (file !== undefined) writeFileSync(join(folder, file), block);
    if (kind !== "sh") continue;
    for (const step of block.trim().split("\n").map(readStep)) {
      const [, name = "", value] = /^export (\w+)=(\S+)$/.exec(step.command) ?? [];
      if (value !== undefined) exported[name] = value;
      else if (step.isKept) {
        const env = { ...process.env, ...exported, PATH: path };
        const name = step.command.split(" ").slice(0, 3).join(" ");
        const before = kept.get(name);
        if (before !== undefined) await end(before);
        const command = `exec ${shellCommand(step.command)}`;
        kept.set(name, spawn("sh", ["-c", command], { cwd: folder, env, detached: true, stdio: "ignore" }));
      } else {
        let output = "";
        const isDone = async () => {
          const { ok, text } = await run(step);
          output = text;
          return ok;
        };
        await until(isDone, { details: () => `${page}: ${step.command}\n${output}` });
      }
    }
  }
}

test.each(["first-sale.md", "first-api.md", "first-webhook.md", "first-runner.md"])(
  "Every command of docs/%s does what the page says, in a fresh folder",
  { timeout: 180_000 },
  runTutorial,
);
