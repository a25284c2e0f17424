import { execFile } from "node:child_process";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { processEnded, spawnTethered, type TetheredProcess } from "../../../src/node/tethered-process.ts";
import { jobgateProgram } from "../../helpers/jobgate-program.ts";

const PROGRAM = [process.execPath, ...jobgateProgram()];

let dev: TetheredProcess;
/** Lines that it printed up to its last one. */
const printed: string[] = [];

beforeAll(async () => {
  const [command = "", ...args] = [...PROGRAM, "dev", "--free-ports"];
  dev = spawnTethered({ command, args });
  dev.stderr.resume();
  for await (const line of createInterface({ input: dev.stdout })) {
    printed.push(line);
    if (line === "End with Ctrl-C.") break;
  }
});
afterAll(() => void dev?.kill("SIGKILL"));

/** Runs the printed line that contains a text, as a person who copies it. */
async function runLine(text: string): Promise<string> {
  const line = printed.find((one) => one.startsWith("  ") && one.includes(text)) ?? "";
  const program = PROGRAM.map((part) => `'${part}'`).join(" ");
  const { stdout } = await promisify(execFile)("sh", ["-c", line.replace(/(npx )?jobgate/, program)]);
  return stdout;
}

const addressOf = (name: string) =>
  printed.find((line) => line.startsWith(name))?.match(/http\S+/)?.[0] ?? "";

describe("jobgate dev", () => {
  test("Sells its sample job to the printed command", async () => {
    expect(await runLine("jobgate pay")).toBe("HELLO\n");
  });

  test("Takes the printed webhook", async () => {
    expect(JSON.parse(await runLine("curl"))).toMatchObject({ status: "accepted", job_id: 30 });
  });

  test("Shows in the printed status what came of both", async () => {
    expect(await runLine("jobgate status")).toMatch(/since start +2 jobs accepted/);
  });

  test.each(["shop", "operator page"])("Serves the printed address of the %s", async (name) => {
    const page = await fetch(addressOf(name), { headers: { accept: "text/html" } });
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
  });

  test("Stops with everything that it started at the first Ctrl-C", async () => {
    dev.kill("SIGINT");
    await processEnded(dev);
    expect(dev.exitCode).toBe(0);
    await expect(fetch(addressOf("chain"))).rejects.toThrow("fetch failed");
  });
});
