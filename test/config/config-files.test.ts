import { expect, test } from "vitest";
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
]);

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
  const result = await loadFiles(toml, { env: { STORE: "postgres://u:p@host/db" } });
  expect(result.ok && result.config.store.url).toBe("postgres://u:p@host/db");
});
