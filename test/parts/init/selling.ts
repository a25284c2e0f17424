import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { spawnTethered } from "../../../src/node/tethered-process.ts";
import { runHereWith } from "../../commands/operator-commands.ts";
import type { PaidParts } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";

/** Starts `jobgate sell` in an empty folder until the end of the test, and returns what it printed once it sells. */
export async function startSelling(
  { facilitator, anvil }: Pick<PaidParts, "facilitator" | "anvil">,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
) {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-sell-test-"));
  const money = ["--network", "base-sepolia", "--facilitator", facilitator.url, "--rpc-url", anvil.rpcUrl];
  const places = ["--listen", "127.0.0.1:0", "--operator", "127.0.0.1:0"];
  const child = spawnTethered({
    command: process.execPath,
    args: [...jobgateProgram(), "sell", ...args, ...money, ...places],
    env: { ...process.env, ...env },
    cwd: folder,
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  });
  const errors: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => errors.push(line));
  const printed: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    printed.push(line);
    if (line === "End with Ctrl-C.") break;
  }
  const output = printed.join("\n");
  const url = /^for sale at +(\S+)$/m.exec(output)?.[1];
  if (url === undefined) throw new Error(`jobgate sell printed no URL: ${output}\n${errors.join("\n")}`);
  return { folder, child, output, errors, url };
}

/** Runs the printed command that buys the route, for one of its paths. */
export async function buy(output: string, route: string, path: string) {
  const words = /^ {2}JOBGATE_PAYER_KEY=0x… (?:npx )?jobgate (pay .+)$/m.exec(output)?.[1] ?? "";
  if (!words.includes(route))
    throw new Error(`jobgate sell printed no command that buys ${route}: ${output}`);
  const args = words.replace(route, path).split(" ");
  return runHereWith(args, { env: { JOBGATE_PAYER_KEY: accounts.payer.privateKey } });
}
