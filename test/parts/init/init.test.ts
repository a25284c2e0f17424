import { existsSync } from "node:fs";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { chooseConfig } from "../../../src/parts/init/init.ts";
import { runHere } from "../../commands/operator-commands.ts";
import { testFolder } from "../../helpers/test-folder.ts";

/** First account of every local development node. */
const PUBLIC_ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

async function init(...args: string[]) {
  const folder = await testFolder();
  const out = join(folder, "jobgate.toml");
  const ended = await runHere("init", "--out", out, ...args);
  return {
    ...ended,
    out,
    secret: join(folder, "secrets/hooks-alerts"),
    check: () => runHere("check", "-c", out),
    text: () => readFile(out, "utf8"),
  };
}

describe("jobgate init", () => {
  test("Writes a configuration that check accepts without a warning, and prints what to do next", async () => {
    const { code, stdout, stderr, check, secret, out } = await init("--yes");
    expect(code).toBe(0);
    expect(await check()).toEqual({
      code: 0,
      stdout: `${out}: ok (priced jobs: 1, tokens: 1, webhook endpoints: 1)\n`,
      stderr: "",
    });
    for (const command of ["check", "dev", "serve", "run-each", "pay", "sign-webhook"])
      expect(stdout).toContain(`jobgate ${command} `);
    expect(stderr).toContain("pay_to is a public test account");
    expect((await stat(secret)).mode & 0o777).toBe(0o600);
  });

  test("Takes what to sell, and for which money, from its options", async () => {
    const sale = ["--job", "summarise", "--description", 'Says it "short".', "--price", "$1.5"];
    const money = ["--network", "base", "--pay-to", ADDRESS.toLowerCase()];
    const { code, stderr, check, text } = await init(...sale, ...money, "--webhook", "-");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(await text()).toMatch(
      new RegExp(`network = "base"\npay_to = "${ADDRESS}"[^]*name = "summarise"[^]*price = "\\$1.5"`),
    );
    expect(await check()).toMatchObject({ code: 0, stdout: expect.stringContaining("webhook endpoints: 0") });
  });

  test.each(["hmac-sha256", "bearer", "github"])(
    "Makes the secret of a webhook with auth %s",
    async (auth) => {
      const { code, check, text, secret } = await init("--job", "-", "--auth", auth);
      expect(code).toBe(0);
      expect(await text()).not.toContain((await readFile(secret, "utf8")).trim());
      expect(await check()).toMatchObject({ code: 0, stderr: "" });
    },
  );

  test("Overwrites a configuration with --force only, and a secret never", async () => {
    const { out, secret } = await init("--yes");
    await writeFile(out, "mine");
    const before = await readFile(secret, "utf8");
    expect(await runHere("init", "--yes", "--out", out)).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("--force"),
    });
    expect(await readFile(out, "utf8")).toBe("mine");
    expect(await runHere("init", "--yes", "--force", "--out", out)).toMatchObject({ code: 0 });
    expect(await readFile(out, "utf8")).toContain("[[jobs]]");
    expect(await readFile(secret, "utf8")).toBe(before);
  });

  test("Writes the routes of a description, with the files of their bodies, and overwrites none", async () => {
    const body = { schema: { type: "object", required: ["text"] }, example: { text: "a" } };
    const post = {
      requestBody: { required: true, content: { "application/json": body } },
      operationId: "sumUp",
    };
    const description = { openapi: "3.1.0", info: { title: "Sums" }, paths: { "/sums": { post } } };
    const folder = await testFolder();
    const file = join(folder, "api.json");
    await writeFile(file, JSON.stringify(description));
    const out = join(folder, "jobgate.toml");
    const args = ["init", "--yes", "--out", out, "--openapi", file];
    expect(await runHere(...args)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("The URL of the API is missing"),
    });
    const written = await runHere(...args, "http://127.0.0.1:8000");
    expect(written).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`Wrote ${out} and ${folder}/schemas.`),
    });
    expect(await runHere("check", "-c", out)).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(await readFile(join(folder, "schemas/sum-up.json"), "utf8"))).toEqual(body.schema);
    expect(JSON.parse(await readFile(join(folder, "schemas/sum-up.example"), "utf8"))).toEqual(body.example);
    const other = join(folder, "other.toml");
    const again = await runHere("init", "--yes", "--out", other, "--openapi", file, "http://127.0.0.1:8000");
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("schemas/sum-up.json exists") });
    expect(existsSync(other)).toBe(false);
  });

  test("Names all that it leaves out, and why, also if nothing is left, and lets no description write on the terminal", async () => {
    const folder = await testFolder();
    const file = join(folder, "api.json");
    const paths = { "/a//b": { get: {} }, "/x402/jobs": { get: {} }, "/b\u001b[2J": { get: {} } };
    await writeFile(file, JSON.stringify({ openapi: "3.1.0", paths }));
    const out = join(folder, "new.toml");
    const nothing = await runHere("init", "--yes", "--out", out, "--openapi", file, "http://127.0.0.1:8000");
    expect(nothing).toMatchObject({ code: 1 });
    expect(nothing.stderr).toMatch(
      /No route is left[\s\S]*GET \/a\/\/b: has an empty[\s\S]*GET \/b\\u\{1b\}[\s\S]*GET \/x402\/jobs: /,
    );
    const price = { mode: "fixed", currency: "EUR", amount: "1" };
    const good = { "/good": { get: { "x-payment-info": { price } } } };
    await writeFile(file, JSON.stringify({ openapi: "3.1.0", paths: good }));
    const some = await runHere("init", "--yes", "--out", out, "--openapi", file, "http://127.0.0.1:8000");
    expect(some.stderr).toContain("Sold at $0.01: GET /good: its x-payment-info has");
  });

  test("Writes nothing if the folder of the schemas cannot be made", async () => {
    const folder = await testFolder();
    const file = join(folder, "api.json");
    const content = { "application/json": { schema: { type: "object", required: ["a"] } } };
    const post = { requestBody: { required: true, content } };
    await writeFile(file, JSON.stringify({ openapi: "3.1.0", paths: { "/a": { post } } }));
    await writeFile(join(folder, "schemas"), "a file");
    const out = join(folder, "new.toml");
    const ended = await runHere("init", "--yes", "--out", out, "--openapi", file, "http://127.0.0.1:8000");
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining("schemas cannot be a folder") });
    expect(existsSync(out)).toBe(false);
  });

  test.each([
    [["--network", "base"], "--pay-to: expected your address"],
    [["--network", "base", "--pay-to", PUBLIC_ACCOUNT], "--pay-to: anyone can take what 0xf39F"],
    [
      ["--network", "sepolia"],
      "Expected a network with a dollar token that jobgate knows: base, base-sepolia, ",
    ],
    [["--pay-to", `${ADDRESS.slice(0, -1)}c`], "checksum"],
    [["--price", "0"], "Expected dollars"],
    [["--job", "-", "--webhook", "-"], "expected at least one"],
  ])("Refuses %j, and writes nothing", async (args, reason) => {
    const { code, stderr, out } = await init(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(reason);
    expect(existsSync(out)).toBe(false);
  });

  test("Asks what the options leave open, and again after an answer that it cannot take", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const asked: string[] = [];
    const answers = ["Sum up", "sum-up", "", "base", "", ADDRESS, "-"];
    const answer = (text: string) => {
      asked.push(text);
      return Promise.resolve(answers.shift() ?? "");
    };
    expect(await chooseConfig({ auth: "bearer" }, answer)).toEqual({
      job: expect.objectContaining({ name: "sum-up", price: "$0.01" }),
      money: expect.objectContaining({ network: "base", payTo: ADDRESS }),
    });
    vi.restoreAllMocks();
    expect(answers).toEqual([]);
    expect(asked.map((text) => text.replace(/[,:[].*/, "").trim())).toEqual([
      ...["Name of a job to sell", "Name of a job to sell", "Its price in dollars"],
      ...["Network of the payments", "Your address", "Your address", "Path of a webhook"],
    ]);
  });
});
