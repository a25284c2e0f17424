import { describe, expect, test } from "vitest";
import { mistakeText } from "../../src/config/mistakes.ts";
import { loadFiles, mistakesOf, TOKEN } from "./config-folder.ts";
import { testMistakes } from "./mistake-cases.ts";

testMistakes([
  {
    promise: "An unset variable is a mistake",
    toml: '[operator]\ntoken = "env:NOT_SET" #!',
    keyPath: "operator.token",
    message: /NOT_SET is not set/,
  },
  {
    promise: "An empty variable is a mistake",
    toml: '[operator]\ntoken = "env:EMPTY" #!',
    keyPath: "operator.token",
    message: /EMPTY is empty/,
  },
  {
    promise: "A text after env: that is not a name is not quoted",
    toml: '[operator]\ntoken = "env:hunter2-secret" #!',
    keyPath: "operator.token",
    message: /^does not name an environment variable; expected "env:NAME"$/,
  },
  {
    promise: "An empty list of tokens is a mistake",
    toml: "[operator]\ntoken = [] #!",
    keyPath: "operator.token",
    message: /^is empty; expected 1 to 8 tokens$/,
  },
  {
    promise: "More than 8 tokens are a mistake",
    toml: `[runner]\ntoken = [${'"x",'.repeat(9)}] #!`,
    keyPath: "runner.token",
    message: /^has 9 entries; expected 1 to 8 tokens$/,
  },
  {
    promise: "A token of a list that no header can hold is a mistake",
    toml: '[runner]\ntoken = ["good", "hunter2\\n"] #!',
    keyPath: "runner.token[1]",
    message: /visible ASCII/,
  },
]);

describe("A secret in a file", () => {
  const withFile = (contents: string | Uint8Array) =>
    loadFiles({ "jobgate.toml": '[operator]\ntoken = ["file:$DIR/token", "second"]\n', token: contents });

  test("Is its contents without the line break at the end, and a warning if every user can read it", async () => {
    for (const end of ["", "\n", "\r\n"]) {
      const result = await withFile(`hunter2${end}`);
      expect(result.ok && result.config.operator.tokens).toEqual(["hunter2", "second"]);
      expect(result.ok && result.warnings.map(mistakeText)).toEqual([
        expect.stringMatching(/:2: operator\.token\[0\]: names \/.*\/token, which every user .*chmod o-r/),
      ]);
    }
  });

  test.each([
    ["an empty file", "\n", "which is empty"],
    ["a file of over 64 KiB", "x".repeat(65_537), "which cannot be read: it is larger than 65536 bytes"],
    ["bytes that are not UTF-8", Uint8Array.of(0xff), "which cannot be read: it is not UTF-8"],
  ])("From %s is a mistake that names the key and the path", async (_what, contents, problem) => {
    const result = await withFile(contents);
    expect(result.ok ? [] : result.mistakes.map(mistakeText)).toEqual([
      expect.stringMatching(
        new RegExp(
          `^jobgate\\.toml:2: operator\\.token\\[0\\]: names /.*/token, ${problem}; expected file:PATH`,
        ),
      ),
    ]);
  });

  test.each([
    [
      "that is not there",
      "file:/nonexistent/token",
      "/nonexistent/token, which cannot be read: no such file",
    ],
    ["that is a folder", "file:/", "/, which cannot be read: it is a directory"],
  ])("From a file %s is a mistake that names the key and the path", async (_what, token, problem) => {
    const [mistake] = await mistakesOf(`[runner]\ntoken = "${token}"\n`);
    expect(mistake?.place).toBe("jobgate.toml:2 runner.token");
    expect(mistake?.message).toBe(`names ${problem}; expected file:PATH of a file that holds the value`);
  });
});

const SDK_X402 = `bind_address = "127.0.0.1:8402"
facilitator_url = "https://facilitator.example.com"
service_id = 7
default_invocation_mode = "disabled"
${TOKEN.replaceAll("x402.", "")}
[[job_policies]]
service_id = 7
job_index = 1
invocation_mode = "restricted_paid"
auth_mode = "delegated_caller_signature"
tangle_rpc_url = "http://127.0.0.1:8545"
tangle_contract = "0x0165878a594ca255338adfa4d48449f69242eb8f"
`;
const MAIN = 'x402 = "x402.toml"\nwebhooks = "hooks.toml"\njob_pricing = "env:PRICES"\n';

test("Files written for the SDK load unchanged, including aliases", async () => {
  const result = await loadFiles(
    {
      "jobgate.toml": MAIN,
      "x402.toml": SDK_X402,
      "hooks.toml": '[[endpoints]]\npath = "/hooks/a"\njob_id = 3\n',
      "prices.toml": '[7]\n1 = "1000000000000000"\n',
    },
    { env: { PRICES: "prices.toml" } },
  );
  if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
  const { config } = result;
  expect(config.serviceId).toBe(7n);
  expect(config.x402?.publicUrl).toBe("http://127.0.0.1:8402");
  expect(config.x402?.jobPolicies[0]?.restriction).toEqual({
    authMode: "delegated_caller_signature",
    chainRpcUrl: "http://127.0.0.1:8545/",
    chainContract: "0x0165878A594ca255338adfa4d48449f69242Eb8F",
    permissionCacheSecs: 0,
  });
  expect(config.x402?.jobPricing).toEqual(new Map([["7/1", 1000000000000000n]]));
  expect(config.webhooks?.endpoints).toEqual([{ path: "/hooks/a", jobId: 3n, auth: { mode: "none" } }]);
});

test("A mistake in a separate file has that file's name and line", async () => {
  const found = await mistakesOf(
    {
      "jobgate.toml": MAIN,
      "x402.toml": SDK_X402.replace("decimals = 6", "decimals = 37"),
      "hooks.toml": '[[endpoints]]\npath = "/hooks/a"\njob = 3\n',
      "prices.toml": '\n[7]\n1 = "1"\n',
    },
    { env: { PRICES: "prices.toml" } },
  );
  expect(found.map(({ place }) => place)).toEqual([
    "x402.toml:9 x402.accepted_tokens[0].decimals",
    "hooks.toml:1 webhooks.endpoints[0].job_id",
    "hooks.toml:3 webhooks.endpoints[0].job",
  ]);
});

test("A syntax error in one file neither hides nor causes mistakes in another", async () => {
  const found = await mistakesOf({
    "jobgate.toml": 'x402 = "x402.toml"\nwebhooks = "missing.toml"\njob_pricing = "prices.toml"\n',
    "x402.toml": "\nbind_address = \n",
    "prices.toml": '[07]\n1 = "1"\n',
  });
  expect(found.map(({ place }) => place)).toEqual([
    "x402.toml:2 x402",
    "missing.toml webhooks",
    "prices.toml:1 job_pricing.07",
  ]);
});

test("The value of a variable is checked and never quoted", async () => {
  const toml = '[store]\nurl = "env:STORE"\n';
  const [mistake] = await mistakesOf(toml, { env: { STORE: "redis://:hunter2@host" } });
  expect(mistake?.place).toBe("jobgate.toml:2 store.url");
  expect(mistake?.message).not.toContain("hunter2");
  const result = await loadFiles(toml, { env: { STORE: "sqlite:/srv/jobs.db" } });
  expect(result.ok && result.config.store.url).toBe("sqlite:/srv/jobs.db");
});
