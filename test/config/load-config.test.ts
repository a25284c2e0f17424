import { expect, test } from "vitest";
import { loadConfig } from "../../src/load-config.ts";
import { loadFiles, mistakesOf, TOKEN, X402 } from "./config-folder.ts";
import { POLICY, without } from "./mistake-cases.ts";

test("Every mistake is listed, in the order of the lines", async () => {
  const found = await mistakesOf(`sevice_id = 1
[store]
url = "redis://x"
[x402]
facilitator_url = "http://fac.example"
accepted_tokens = "all"
[[webhooks.endpoints]]
path = "/x402/jobs"
job_id = -1
auth = "bearer"
[job_pricing.1]
0 = 5
`);
  expect(found.map(({ place }) => place)).toEqual([
    "jobgate.toml:1 sevice_id",
    "jobgate.toml:3 store.url",
    "jobgate.toml:5 x402.facilitator_url",
    "jobgate.toml:6 x402.accepted_tokens",
    "jobgate.toml:7 webhooks.endpoints[0].secret",
    "jobgate.toml:8 webhooks.endpoints[0].path",
    "jobgate.toml:9 webhooks.endpoints[0].job_id",
    "jobgate.toml:12 job_pricing.1.0",
  ]);
});

test("A syntax error has its line and does not quote the file", async () => {
  const [mistake, ...rest] = await mistakesOf('service_id = 1\n[operator]\ntoken = "hunter2\n');
  expect(mistake?.place).toBe("jobgate.toml:3 ");
  expect(mistake?.message).toMatch(/^is not valid TOML: /);
  expect(mistake?.message).not.toContain("hunter2");
  expect(rest).toEqual([]);
});

test("A missing file is a mistake", async () => {
  const [mistake] = await mistakesOf({ "other.toml": "" });
  expect(mistake).toEqual({
    place: "jobgate.toml ",
    message: "cannot be read: no such file; expected a TOML file",
  });
});

test("A wrong value under an alias is not also reported as missing under the other name", async () => {
  const toml = `${X402}${TOKEN}${without(POLICY, "chain_contract")}tangle_contract = "0x12"`;
  const found = await mistakesOf(toml);
  expect(found.map(({ place }) => place.split(" ")[1])).toEqual(["x402.job_policies[0].tangle_contract"]);
});

test("A job that is not for sale can have any price", async () => {
  const disabled = POLICY.replace("restricted_paid", "disabled");
  const toml = `${X402}default_invocation_mode = "public_paid"\n${TOKEN}${disabled}[job_pricing.1]\n0 = "1"\n`;
  expect(await mistakesOf(toml)).toEqual([]);
});

test("Two gateways can share an address", async () => {
  const toml = `${X402}bind_address = "127.0.0.1:9000"\n${TOKEN}[webhooks]\nbind_address = "127.0.0.1:9000"\n`;
  expect(await mistakesOf(toml)).toEqual([]);
});

test("A reachable runner listener is accepted with a token", async () => {
  const result = await loadFiles('[runner]\nbind_address = "0.0.0.0:8403"\ntoken = "env:T"', {
    env: { T: "hunter2" },
  });
  expect(result.ok && result.config.runner.tokens).toEqual(["hunter2"]);
});

test("A configuration can be given as text instead of a file", async () => {
  const given = { path: "inline.toml", toml: "[runner]\nlease_secs = 5\n", env: {} };
  const result = await loadConfig(given);
  expect(result.ok && result.config.runner.leaseMs).toBe(5_000);
  const wrong = await loadConfig({ ...given, toml: "\n[runner]\nlease_sec = 5\n" });
  expect(!wrong.ok && wrong.mistakes).toMatchObject([
    { file: "inline.toml", line: 3, keyPath: "runner.lease_sec", suggestion: "lease_secs" },
  ]);
});
