import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { onTestFinished, vi } from "vitest";
import { processEnded, spawnTethered } from "../../../src/node/tethered-process.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";
import { until } from "../../helpers/until.ts";
import { startWorkDelivery } from "../work-stream/harness.ts";

/** Arguments that run the body of each JobCall as a script, with one argument that a shell would expand. */
export const SCRIPTS = ["--", "sh", "-s", "$(date)"];

/** Starts `jobgate run-each` as a process, for one test. Resolves once it is connected. */
export async function startRunEach(
  address: string,
  args: readonly string[],
  env: Record<string, string> = {},
) {
  const child = spawnTethered({
    command: process.execPath,
    args: [...jobgateProgram(), "run-each", "--runner", address, ...args],
    env: { PATH: process.env.PATH, ...env },
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await processEnded(child);
  });
  const lines: string[] = [];
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  createInterface({ input: child.stderr }).on("line", (line) => lines.push(line));
  const connected = () => lines.filter((line) => line.includes('"connected to ')).length;
  await until(() => connected() > 0);
  return { child, lines, exited, connected };
}

/** Starts a runner listener on a real store and records calls to the store. */
export async function startWatched(config: Parameters<typeof startWorkDelivery>[0] = {}) {
  const delivery = await startWorkDelivery(config);
  const { store } = delivery;
  const spies = {
    claims: vi.spyOn(store, "claim"),
    acks: vi.spyOn(store, "ack"),
    retries: vi.spyOn(store, "retry"),
    fails: vi.spyOn(store, "fail"),
  };
  onTestFinished(() => {
    for (const spy of Object.values(spies)) spy.mockRestore();
  });
  const script = (body: string) => delivery.accept({ body: Buffer.from(body) });
  return { ...delivery, ...spies, script };
}

/** Reads the ID that a program has written; 0 while there is none. */
export const readPid = async (path: string): Promise<number> =>
  Number(await readFile(path, "utf8").catch(() => "")) || 0;
