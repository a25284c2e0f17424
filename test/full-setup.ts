import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Installs what the full tests need beyond `npm ci`, once. */
export default function setup(): void {
  const v1Client = fileURLToPath(new URL("interop/x402-v1", import.meta.url));
  if (existsSync(`${v1Client}/node_modules/x402-fetch/package.json`)) return;
  console.log("Installing the official version 1 client (about 470 MB) …");
  execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], {
    cwd: v1Client,
    stdio: "inherit",
  });
}
