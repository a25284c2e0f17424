import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { testFolder } from "../helpers/test-folder.ts";
import { runHereWith } from "./operator-commands.ts";

const GOOD = 'service_id = 1\n[operator]\ntoken = "env:TOKEN"\n[webhooks]\n';

describe("jobgate check", () => {
  test("Prints file, line and key path of every mistake, and exits with 1", async () => {
    const files = {
      "jobgate.toml": 'webhooks = "hooks.toml"\n[operator]\ntoken = "env:TOKEN"\nport = 3\n',
      "hooks.toml": '\n[[endpoints]]\npath = "hooks"\njob_id = 1\n',
    };
    const { code, stdout } = await runHereWith(["check"], { files });
    expect(code).toBe(1);
    expect(stdout.split("\n").map((line) => line.split(": ").slice(0, 2))).toEqual([
      ["jobgate.toml:3", "operator.token"],
      ["jobgate.toml:4", "operator.port"],
      ["hooks.toml:3", "webhooks.endpoints[0].path"],
      [""],
    ]);
  });

  test("Prints one line for a valid configuration; an option overrides its environment twin", async () => {
    const { code, stdout, stderr } = await runHereWith(["check", "-c", "good.toml"], {
      files: { "good.toml": GOOD },
      env: { TOKEN: "hunter2", JOBGATE_CONFIG: "bad.toml" },
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe("good.toml: ok (priced jobs: 0, tokens: 0, webhook endpoints: 0)\n");
  });

  test("An environment twin replaces an option", async () => {
    const files = { "bad.toml": "x = 1\n" };
    const { stdout } = await runHereWith(["check"], { files, env: { JOBGATE_CONFIG: "bad.toml" } });
    expect(stdout).toMatch(/^bad\.toml:1: x: /);
  });

  test("Reports a missing file as a mistake", async () => {
    const { code, stdout, stderr } = await runHereWith(["check"]);
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: "jobgate.toml: cannot be read: no such file; expected a TOML file\n",
      stderr: "",
    });
  });

  test.each([
    ["x402", 'bind_address = "0.0.0.0:8402"\nfacilitator_url = "https://x402.org/facilitator"\n'],
    ["webhooks", '[[endpoints]]\npath = "/hooks/a"\njob_id = 1\n'],
    ["job_pricing", '[1]\n0 = "1000000000000000"\n'],
  ])("Says how to include a file of the SDK: %s", async (table, toml) => {
    const { code, stdout } = await runHereWith(["check", "-c", "sdk.toml"], { files: { "sdk.toml": toml } });
    expect(code).toBe(1);
    expect(stdout).toBe(
      `sdk.toml: holds the keys of the ${table} table; expected jobgate.toml beside it, with the line ` +
        `${table} = "sdk.toml" above its first [table]. Then run jobgate check -c jobgate.toml\n`,
    );
  });

  test("--json prints one document with every mistake, its line and a near value, and exits with 1", async () => {
    const files = { "jobgate.toml": '[store]\nmax_pending = "10"\n[runner]\nlese_secs = 3\n' };
    const { code, stdout, stderr } = await runHereWith(["check", "--json"], { files });
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    const mistake = { severity: "error", file: "jobgate.toml" };
    expect(JSON.parse(stdout)).toEqual({
      ok: false,
      problems: [
        {
          ...{ ...mistake, path: "store.max_pending", line: 2, suggestion: "10" },
          message: 'is "10"; expected an integer from 1 to 1000000000; did you mean 10 without quotes?',
        },
        {
          ...{ ...mistake, path: "runner.lese_secs", line: 4, suggestion: "lease_secs" },
          message: "is not a known key; did you mean lease_secs?",
        },
      ],
      notes: [],
    });
  });

  test("--json says that a configuration is ok, with its warnings", async () => {
    const files = { "jobgate.toml": "[webhooks]\n" };
    const { code, stdout, stderr } = await runHereWith(["check", "--json"], { files });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const message = "is missing, so webhook JobCalls carry service id 0";
    expect(JSON.parse(stdout)).toEqual({
      ok: true,
      problems: [{ severity: "warning", path: "service_id", file: "jobgate.toml", message }],
      notes: [],
    });
  });

  test("--json has what --online finds", async () => {
    const files = { "jobgate.toml": '[store]\nurl = "sqlite:/nonexistent/folder/jobgate.db"\n' };
    const { code, stdout } = await runHereWith(["check", "--json", "--online"], { files });
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      problems: [
        {
          severity: "error",
          path: "store.url",
          line: 2,
          message: expect.stringMatching(/^cannot be opened/),
        },
      ],
    });
  });

  test("--online leaves no store behind in a folder where nothing was served", async () => {
    const folder = await testFolder();
    const toml = `[store]\nurl = "sqlite:${folder}/jobgate.db"\n[webhooks]\n`;
    const { code, stdout } = await runHereWith(["check", "--online"], { files: { "jobgate.toml": toml } });
    expect(code, stdout).toBe(0);
    expect(await readdir(folder)).toEqual([]);
  });

  test("--online leaves an empty file where the store will be as it is", async () => {
    const folder = await testFolder();
    await writeFile(join(folder, "jobgate.db"), "");
    const toml = `[store]\nurl = "sqlite:${folder}/jobgate.db"\n[webhooks]\n`;
    const { code, stdout } = await runHereWith(["check", "--online"], { files: { "jobgate.toml": toml } });
    expect(code, stdout).toBe(0);
    expect(await readdir(folder)).toEqual(["jobgate.db"]);
    expect((await stat(join(folder, "jobgate.db"))).size).toBe(0);
  });

  test("--online reports an unreachable facilitator, rate source, pricing engine and store, with their lines", async () => {
    const toml = `[store]
url = "sqlite:/nonexistent/folder/jobgate.db"
[x402]
bind_address = "127.0.0.1:8402"
facilitator_url = "http://user:hunter2@127.0.0.1:1"
[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
symbol = "USDC"
decimals = 6
pay_to = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
rate_source.http = { url = "http://127.0.0.1:2/?key=hunter2", pointer = "/rate", max_age_secs = 60 }
transfer_method = "eip3009"
eip3009_name = "USDC"
eip3009_version = "2"
rpc_url = "http://127.0.0.1:1/hunter2"
[pricing_engine]
url = "http://127.0.0.1:1"
`;
    const { code, stdout } = await runHereWith(["check", "--online"], { files: { "jobgate.toml": toml } });
    expect(code).toBe(1);
    expect(stdout).toContain(
      "jobgate.toml:5: x402.facilitator_url: does not answer; expected an x402 facilitator (127.0.0.1:1: ECONNREFUSED)",
    );
    expect(stdout).toContain(
      "jobgate.toml:16: x402.accepted_tokens[0].rpc_url: does not answer as a chain's RPC (127.0.0.1:1: ECONNREFUSED); expected",
    );
    expect(stdout).toContain(
      "jobgate.toml:12: x402.accepted_tokens[0].rate_source.http.url: gives no rate: it does not answer (127.0.0.1:2: ECONNREFUSED)",
    );
    expect(stdout).toContain("jobgate.toml:18: pricing_engine.url: does not answer (127.0.0.1:1)");
    expect(stdout).toContain(
      "jobgate.toml:2: store.url: cannot be opened: there is no folder /nonexistent/folder",
    );
    expect(stdout).not.toContain("hunter2");
  });
});
