import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { privateKeyToAccount } from "viem/accounts";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { runProgram } from "../../../src/commands/program.ts";
import { runJobgate } from "../../commands/run-jobgate.ts";
import { accounts } from "../../helpers/accounts.ts";

const { address, privateKey } = accounts.deployer;

let folder: string;
let job: string[];
let printed: { stdout: string; stderr: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-cli-"));
  const body = join(folder, "body");
  await writeFile(body, "hello");
  job = ["--service-id", "1", "--job-index", "7", "--body", body, "--key", "env:CALLER_KEY"];
});
afterAll(() => rm(folder, { recursive: true }));

beforeEach(() => {
  printed = { stdout: "", stderr: "" };
  vi.spyOn(console, "log").mockImplementation((line) => {
    printed.stdout += `${line}\n`;
  });
  const complain = (text: unknown) => {
    printed.stderr += String(text);
    return true;
  };
  vi.spyOn(console, "error").mockImplementation(complain);
  vi.spyOn(process.stderr, "write").mockImplementation(complain);
  vi.stubEnv("CALLER_KEY", privateKey);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const sign = (args: readonly string[]) => runProgram(["sign-caller", ...args]);

test("Prints the four headers, one on a line, and nothing else", async () => {
  const args = ["--service-id", "1", "--job-index", "7", "--body", "body", "--key", "env:CALLER_KEY"];
  const ended = await runJobgate(["sign-caller", ...args, "--nonce", "nonce-123", "--expiry", "4102444800"], {
    files: { body: "hello" },
    env: { CALLER_KEY: privateKey },
    from: "build",
  });
  expect(ended).toEqual({
    code: 0,
    stdout: [
      `X-CHAIN-CALLER: ${address}`,
      "X-CHAIN-CALLER-SIG: 0x814d0eea80800217fd84c9cb9daa1b72c17f30745366958bd0e2798190875c145a27d3ce7ab1dfd8937282633c978a81ba053734cc2869d016af6457b3b5c5e81b",
      "X-CHAIN-CALLER-NONCE: nonce-123",
      "X-CHAIN-CALLER-EXPIRY: 4102444800",
      "",
    ].join("\n"),
    stderr: "",
  });
});

test("Accepts a key without 0x", async () => {
  vi.stubEnv("CALLER_KEY", privateKey.slice(2));
  expect(await sign(job)).toBe(0);
  expect(printed.stdout).toContain(`X-CHAIN-CALLER: ${address}\n`);
});

test("By default the nonce is random and the expiry is 10 minutes ahead", async () => {
  const nonces = new Set<string>();
  for (let run = 0; run < 2; run++) {
    printed.stdout = "";
    expect(await sign(job)).toBe(0);
    nonces.add(/^X-CHAIN-CALLER-NONCE: ([0-9a-f]{32})$/m.exec(printed.stdout)?.[1] ?? "");
    const expiry = Number(/^X-CHAIN-CALLER-EXPIRY: (\d+)$/m.exec(printed.stdout)?.[1]);
    expect(expiry - Date.now() / 1000).toBeGreaterThan(590);
    expect(expiry - Date.now() / 1000).toBeLessThanOrEqual(600);
  }
  expect(nonces.size).toBe(2);
  expect(nonces).not.toContain("");
});

test("Signs the hash of a request at a route", async () => {
  const target = "GET /weather/Paris?units=metric";
  const headers = ["Content-Encoding: br", "X-Name: \u00e9"];
  const sent = [...headers.flatMap((text) => ["--header", text]), "--target", target];
  expect(await sign([...job, ...sent, "--nonce", "n", "--expiry", "5"])).toBe(0);
  const lines = "GET\n/weather/Paris\nunits=metric\ncontent-encoding: br\nx-name: \u00e9\n\nhello";
  const hash = createHash("sha256").update(lines).digest("hex");
  const account = privateKeyToAccount(privateKey);
  const signature = await account.signMessage({ message: `x402-authorize:1:7:${hash}:n:5` });
  expect(printed.stdout).toContain(`X-CHAIN-CALLER-SIG: ${signature}\n`);
});

test.each([
  [["--target", "weather"], '--target is "weather"'],
  [["--header", "Accept: a"], '--target is ""'],
  [["--target", "GET /a", "--header", "Accept"], '--header is "Accept"'],
])("Refuses %j", async (args, problem) => {
  expect(await sign([...job, ...args])).toBe(1);
  expect(printed).toEqual({ stdout: "", stderr: expect.stringContaining(problem) });
});

test("Every option has an environment twin", async () => {
  const [, serviceId = "", , jobIndex = "", , body = "", , key = ""] = job;
  const twins = { JOBGATE_SERVICE_ID: serviceId, JOBGATE_JOB_INDEX: jobIndex, JOBGATE_BODY: body };
  for (const [name, value] of Object.entries({
    ...twins,
    JOBGATE_KEY: key,
    JOBGATE_NONCE: "n",
    JOBGATE_EXPIRY: "5",
  }))
    vi.stubEnv(name, value);
  expect(await sign([])).toBe(0);
  expect(printed.stdout).toContain("X-CHAIN-CALLER-NONCE: n\nX-CHAIN-CALLER-EXPIRY: 5\n");
});

test.each([
  ["too short", privateKey.slice(0, -2)],
  ["not hex", privateKey.replaceAll("a", "g")],
  ["too large", `0x${"f".repeat(64)}`],
  ["unset", ""],
])("Refuses a key that is %s, and never prints it", async (_, key) => {
  vi.stubEnv("CALLER_KEY", key);
  expect(await sign(job)).toBe(1);
  expect(printed.stdout).toBe("");
  expect(printed.stderr).toContain("CALLER_KEY");
  if (key !== "") expect(printed.stderr).not.toContain(key.slice(2, 20));
});

test("A key as an argument is bad usage, and is never printed", async () => {
  expect(await sign([...job, "--key", privateKey])).toBe(2);
  expect(printed.stderr).toContain("expected env:NAME");
  expect(printed.stderr + printed.stdout).not.toContain(privateKey.slice(2, 20));
});

test.each([
  ["a job index above u32", ["--job-index", "4294967296"]],
  ["an empty nonce", ["--nonce", ""]],
  ["a nonce with a space", ["--nonce", "a b"]],
  ["an expiry with a sign", ["--expiry", "+1"]],
])("Bad usage: %s", async (_, args) => {
  expect(await sign([...job, ...args])).toBe(2);
  expect(printed.stdout).toBe("");
});

test("Refuses a missing body file", async () => {
  expect(await sign([...job, "--body", "/nothing/there"])).toBe(1);
  expect(printed).toEqual({ stdout: "", stderr: "/nothing/there cannot be read: no such file" });
});
