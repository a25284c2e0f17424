import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Config } from "../../../../src/config/config.ts";
import { mistakeText } from "../../../../src/config/mistakes.ts";
import { loadConfig } from "../../../../src/load-config.ts";
import { runHere, runHereWith } from "../../../commands/operator-commands.ts";
import { type OperatorUnderTest, startOperator, TOKEN } from "../../../helpers/operator.ts";
import { paidCall, paidId, paymentIntent } from "../../../store/store-fixtures.ts";

let jobgate: OperatorUnderTest;
let target: string;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-payments-"));
  jobgate = await startOperator({ token: TOKEN });
  target = jobgate.operator.address;
  for (let number = 1; number <= 3; number++) await paidId(jobgate.store, number);
  await jobgate.store.beginPayment(paymentIntent(4), paidCall());
  await jobgate.store.leavePaymentUnresolved(paymentIntent(4).key, "rpc \u001b[2J gone");
});
afterAll(async () => {
  await jobgate?.stop();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => vi.unstubAllEnvs());

/** Runs a command with the token and with --target. */
const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere(...args, "--target", target);
};

describe("jobgate payments", () => {
  test("list prints a table of --limit payments, newest first", async () => {
    const { code, stdout } = await run("payments", "list", "--limit", "2");
    const [headings, ...rows] = stdout.trimEnd().split("\n");
    expect(code).toBe(0);
    expect(headings).toMatch(/^ID +STATE +AMOUNT +JOB +PAYER +NETWORK +CREATED +REASON$/);
    expect(rows.map((row) => row.split(/ +/).slice(0, 2))).toEqual([
      ["4", "unresolved"],
      ["3", "settled"],
    ]);
    expect(rows[0]?.split(/ {2,}/)[5]).toBe("Base Sepolia");
  });

  test("Amounts are in whole tokens with the symbol, and otherwise named as base units", async () => {
    const configured = await startOperator({ token: TOKEN, configuration: await configurationWithUsdc() });
    onTestFinished(() => configured.stop());
    await paidId(configured.store, 1);
    const there = ["--target", configured.operator.address] as const;
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
    expect((await runHere("payments", "list", ...there)).stdout).toContain(" 3.264 USDC ");
    expect((await runHere("payments", "show", "1", ...there)).stdout).toMatch(/^amount +3\.264 USDC$/m);
    expect((await run("payments", "list")).stdout).toContain(" 3264000 base units of USDC ");
    const [line = ""] = (await run("payments", "list", "--json")).stdout.split("\n");
    expect(JSON.parse(line)).toMatchObject({ amount: "3264000", amount_text: "3264000 base units of USDC" });
  });

  test("list --json prints one line of JSON for each payment in --state", async () => {
    const { stdout } = await run("payments", "list", "--json", "--state", "settled");
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject(
      ["3", "2", "1"].map((call_id) => ({ call_id, state: "PAYMENT_STATE_SETTLED" })),
    );
  });

  test("show prints every field of a payment, and escapes control characters", async () => {
    const { code, stdout } = await run("payments", "show", "4");
    expect(code).toBe(0);
    expect(stdout).toContain(paymentIntent(4).receipt);
    expect(stdout).toMatch(/^network +Base Sepolia, eip155:84532$/m);
    expect(stdout).toContain("rpc \\u{1b}[2J gone");
    expect(stdout).not.toContain("\u001b");
  });

  test("close decides a payment with who and why, and refuses a payment that is decided", async () => {
    const other = await startOperator({ token: TOKEN });
    onTestFinished(() => other.stop());
    for (const number of [1, 2]) {
      await other.store.beginPayment(paymentIntent(number), paidCall());
      await other.store.leavePaymentUnresolved(paymentIntent(number).key, "nobody knows");
    }
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
    const there = ["--target", other.operator.address];
    const close = (id: number, verdict: string, by: string) =>
      runHere("payments", "close", String(id), "--as", verdict, "--note", "block 12", "--by", by, ...there);
    expect(await close(1, "paid", "ada")).toEqual({ code: 0, stdout: "1 settled\n", stderr: "" });
    expect(await close(2, "not-paid", "bob")).toEqual({ code: 0, stdout: "2 failed\n", stderr: "" });
    expect(await close(1, "not-paid", "bob")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("Payment 1 is settled: it cannot be closed as not paid."),
    });
    expect(await close(9, "paid", "ada")).toMatchObject({
      code: 1,
      stderr: "There is no payment with call id 9.\n",
    });
    expect((await runHere("payments", "show", "1", ...there)).stdout).toMatch(
      /^closed +20.*Z closed as paid by ada: block 12$/m,
    );
    const { stdout } = await runHere("payments", "list", ...there);
    expect(stdout).toMatch(/^2 +failed .* closed as not paid by bob: block 12; nobody knows$/m);
    expect((await other.store.totals()).calls).toMatchObject({ held: 0, ready: 1 });
  });

  test("totals shows whether the journal balances", async () => {
    const { stdout } = await run("payments", "totals");
    expect(stdout).toMatch(/^journal +sold 3 = ready 3 \+ leased 0 \+ done 0 \+ dead 0$/m);
    expect(stdout).toMatch(/^balanced +yes$/m);
    const json = JSON.parse((await run("payments", "totals", "--json")).stdout);
    expect(json).toMatchObject({ payments: { settled: "3", unresolved: "1" }, balanced: true });
  });

  test("Exits with 1 for an unknown payment, and with 2 for bad usage", async () => {
    expect(await run("payments", "show", "99")).toEqual({
      code: 1,
      stdout: "",
      stderr: "There is no payment with call id 99.\n",
    });
    for (const args of [
      ["payments"],
      ["payments", "show"],
      ["payments", "show", "01"],
      ["payments", "list", "--state", "lost"],
      ["payments", "close", "4", "--as", "paid"],
      ["payments", "close", "4", "--as", "perhaps", "--note", "x"],
      ["payments", "list", "--limit", "0"],
      ["payments", "list", "--target", "nowhere"],
    ]) {
      const { code, stdout } = await runHere(...args);
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
    }
  });

  test("An argument that only the running jobgate can check is bad usage as well", async () => {
    const { code, stdout, stderr } = await run("payments", "list", "--payer", "0x12");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("payer: expected an address");
  });

  test("No environment twin decides a payment", async () => {
    vi.stubEnv("JOBGATE_AS", "paid");
    expect(await run("payments", "close", "4", "--note", "x")).toMatchObject({ code: 2, stdout: "" });
  });

  test("An environment twin replaces an option", async () => {
    vi.stubEnv("JOBGATE_STATE", "unresolved");
    vi.stubEnv("JOBGATE_JSON", "1");
    const { stdout } = await run("payments", "list");
    expect(JSON.parse(stdout)).toMatchObject({ call_id: "4" });
  });
});

describe("The address of the running jobgate", () => {
  test("Address and token come from the configuration file", async () => {
    const files = {
      "jobgate.toml": `[operator]\nbind_address = "${target}"\ntoken = "env:SECRET"\n`,
    };
    const env = { SECRET: TOKEN };
    const { code, stdout } = await runHereWith(["payments", "totals"], { files, env });
    expect(code).toBe(0);
    expect(stdout).toContain("sold 3 =");
  });

  test("--target takes a unix socket", async () => {
    const socketPath = join(folder, "operator.sock");
    const other = await startOperator({ socketPath });
    try {
      const { code, stdout } = await runHere("payments", "totals", "--target", `unix:${socketPath}`);
      expect(code).toBe(0);
      expect(stdout).toContain("sold 0 =");
    } finally {
      await other.stop();
    }
  });

  test("Exits with 1 and says what to check if no jobgate answers", async () => {
    for (const nobody of ["127.0.0.1:1", `unix:${join(folder, "none.sock")}`, `http://${target}/elsewhere`]) {
      const { code, stderr } = await runHere("payments", "list", "--target", nobody);
      expect({ nobody, code }).toEqual({ nobody, code: 1 });
      expect(stderr).toMatch(/^No jobgate answers at .*\nIs `jobgate serve` running/);
    }
  });

  test("Refuses a URL that holds a password, and does not print it", async () => {
    const { code, stdout, stderr } = await runHere(
      "payments",
      "list",
      "--target",
      `http://u:hunter2@${target}`,
    );
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^error: --target: /);
    expect(stderr).not.toContain("hunter2");
    const malformed = await runHere("payments", "list", "--target", "http://u:hunter2@");
    expect([malformed.code, malformed.stderr]).toEqual([2, expect.not.stringContaining("hunter2")]);
  });

  test("Exits with 1 for a wrong token, says what to check, and does not print it", async () => {
    vi.stubEnv("JOBGATE_OPERATOR_TOKEN", "hunter2");
    const { code, stderr } = await runHere("payments", "list", "--target", target);
    expect(code).toBe(1);
    expect(stderr).toContain("Set JOBGATE_OPERATOR_TOKEN");
    expect(stderr).not.toContain("hunter2");
  });

  test("Asks for -c or --target if there is no configuration", async () => {
    expect(await runHereWith(["payments", "list"])).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "there is no jobgate.toml: name the configuration with -c, or a running jobgate's address with --target\n",
    });
  });

  test("Asks for --target if the configured port is 0", async () => {
    const config = join(folder, "jobgate.toml");
    await writeFile(config, '[operator]\nbind_address = "127.0.0.1:0"\n');
    const { code, stderr } = await runHere("payments", "list", "-c", config);
    expect(code).toBe(1);
    expect(stderr).toContain("--target");
  });
});

test("--help of each command of payments and dead-letters shows one example", async () => {
  for (const command of [
    ...["list", "show", "close", "totals"].map((name) => ["payments", name]),
    ...["list", "show", "retry", "drop"].map((name) => ["dead-letters", name]),
  ]) {
    const { code, stdout } = await runHere(...command, "--help");
    expect(code).toBe(0);
    expect(stdout.match(/\$ jobgate /g)).toHaveLength(1);
    expect(stdout).toContain(`$ jobgate ${command.join(" ")}`);
  }
});

async function configurationWithUsdc(): Promise<Config> {
  const path = join(folder, "with-usdc.toml");
  await writeFile(
    path,
    `service_id = 1
[x402]
facilitator_url = "http://127.0.0.1:1"
[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
symbol = "USDC"
decimals = 6
pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
rate_per_native_unit = "3200"
transfer_method = "eip3009"
eip3009_name = "USDC"
eip3009_version = "2"
`,
  );
  const loaded = await loadConfig({ path, env: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map(mistakeText).join());
  return loaded.config;
}
