import { cp } from "node:fs/promises";
import { join } from "node:path";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { preparePython } from "../e2e/python.ts";
import { copySources, ROOT, run, WORKSHOP } from "../e2e/workshop.ts";
import { freePort } from "../helpers/free-port.ts";
import { until } from "../helpers/until.ts";

/** A running app of `examples/api-*`. */
export interface ApiApp {
  readonly url: string;
  stop(): Promise<void>;
}

interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

async function express(): Promise<Command> {
  const cwd = join(WORKSHOP, "examples/api-express");
  await copySources(join(ROOT, "examples/api-express"), cwd);
  await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock"], cwd);
  return { command: process.execPath, args: ["app.js"], cwd };
}

async function fastapi(): Promise<Command> {
  const { python: command, cwd } = await preparePython("api-fastapi");
  // An app whose dependencies are installed may have changed.
  await cp(join(ROOT, "examples/api-fastapi/app.py"), join(cwd, "app.py"));
  return { command, args: ["-m", "uvicorn", "app:app", "--log-level", "error"], cwd };
}

const APPS = { express, fastapi } as const;
export type AppName = keyof typeof APPS;

/** Installs an app, and starts it on a free port. */
export async function startApiApp(name: AppName): Promise<ApiApp> {
  const { command, args, cwd } = await APPS[name]();
  const port = String(await freePort());
  const words = name === "fastapi" ? [...args, "--port", port] : args;
  const child = spawnTethered({ command, args: words, cwd, env: { ...process.env, PORT: port } });
  child.stdout.resume();
  child.stderr.resume();
  const url = `http://127.0.0.1:${port}`;
  await until(async () => (await fetch(`${url}/health`).catch(() => undefined))?.ok);
  return {
    url,
    async stop() {
      child.kill("SIGKILL");
      await processEnded(child);
    },
  };
}
