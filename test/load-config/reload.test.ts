import { expect, onTestFinished, test } from "vitest";
import { afterReload, changesThatNeedRestart } from "../../src/config/checked-file.ts";
import type { ShownTable } from "../../src/config/shown.ts";
import { configOf, loadFiles, TOKEN, X402 } from "../config/config-folder.ts";
import { makeCertificates } from "../helpers/certificates.ts";
import { KEYSTORES } from "../helpers/keystores.ts";

const ENGINE = `[pricing_engine]
url = "http://127.0.0.1:9"
chain_id = 1
verifying_contract = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
operator_address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
`;
const ENDPOINT = '[[webhooks.endpoints]]\npath = "/a"\njob_id = 1\n';
/** Configuration with a secret of each kind. */
const secrets = (its: { token: string; header: string; password: string; networks?: string }) => `[runner]
token = ${its.token}
[operator]
token = ${its.token}
[x402]
public_url = "https://operator.example.com"
[x402.facilitator_service]
bind_address = "127.0.0.1:8406"
tokens = [{ name = "shop", token = "${its.header}" }]
[[x402.facilitators]]
url = "https://facilitator.example.com"
auth.headers = { X-Key = "${its.header}" }
networks = ${its.networks ?? '["base-sepolia"]'}
[[x402.facilitators]]
url = "https://user:${its.password}@other.example.com"
[[x402.facilitators]]
local = true
signer = { private_key = "${"1".repeat(64)}" }
rpc_urls = { base-sepolia = "http://127.0.0.1:9" }
${TOKEN}`;

test("A reload changes prices, rates, policies, endpoints and push targets", async () => {
  const running = await configOf(`${X402}${TOKEN}[webhooks]\n`);
  const next = await configOf(
    `${X402}default_invocation_mode = "public_paid"\n${TOKEN.replace("3200.00", "3300.00")}${ENDPOINT}[[push]]\nurl = "http://127.0.0.1:8000/"\n[job_pricing.1]\n0 = "1000000000000000"\n`,
  );
  expect(changesThatNeedRestart(running, next)).toEqual([]);
  expect(afterReload(running, next)).toEqual(next);
});

test("A reload does not change addresses, the store or the runner", async () => {
  const running = await configOf(`${X402}${TOKEN}[webhooks]\n`);
  const next = await configOf(
    `${X402}bind_address = "127.0.0.1:1"\n${TOKEN}[store]\nmax_pending = 5\n[runner]\nlease_secs = 1\n`,
  );
  expect(changesThatNeedRestart(running, next)).toEqual([
    "store.max_pending",
    "runner.lease_secs",
    "x402.bind_address",
    "webhooks",
  ]);
  expect(afterReload(running, next)).toEqual(running);
});

test("A reload changes the secrets of the listeners and of the facilitators", async () => {
  const running = await configOf(secrets({ token: '"old"', header: "old", password: "old" }));
  const next = await configOf(secrets({ token: '["old", "new"]', header: "new", password: "new" }));
  expect(changesThatNeedRestart(running, next)).toEqual([]);
  expect(afterReload(running, next)).toEqual(next);
});

test("A reload changes user and password of a Postgres store, and no other part of its URL", async () => {
  const at = (url: string) => configOf(`[store]\nurl = "${url}"\n`);
  const running = await at("postgres://old:one@db.example.com/jobgate?sslmode=require");
  const rotated = await at("postgres://new:two@db.example.com/jobgate?sslmode=require");
  expect(changesThatNeedRestart(running, rotated)).toEqual([]);
  expect(afterReload(running, rotated)).toEqual(rotated);
  for (const url of ["postgres://new:two@db.example.com/jobgate", "sqlite:jobgate.db"]) {
    const moved = await at(url);
    expect(changesThatNeedRestart(running, moved)).toEqual(["store.url"]);
    expect(afterReload(running, moved)).toEqual(running);
    expect(afterReload(moved, running)).toEqual(moved);
  }
});

test("Secrets of facilitators wait for the restart together with another change of the list", async () => {
  const running = await configOf(secrets({ token: '"old"', header: "old", password: "old" }));
  const next = await configOf(
    secrets({ token: '"new"', header: "new", password: "new", networks: '["base", "base-sepolia"]' }),
  );
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.facilitators"]);
  const { runner, x402 } = afterReload(running, next);
  expect(runner.tokens).toEqual(["new"]);
  expect(x402?.facilitators).toEqual(running.x402?.facilitators);
});

test("The account of the local facilitator waits for the restart", async () => {
  const running = await configOf(secrets({ token: '"old"', header: "old", password: "old" }));
  const other = secrets({ token: '"old"', header: "old", password: "old" }).replace(
    "1".repeat(64),
    "2".repeat(64),
  );
  const next = await configOf(other);
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.facilitators"]);
  expect(afterReload(running, next)).toEqual(running);
  expect(afterReload(running, next)).not.toEqual(next);
});

test("An account for refunds waits for the restart, and is named once", async () => {
  const running = await configOf(`${X402}${TOKEN}`);
  const key = `0x${"01".repeat(32)}`;
  const next = await configOf(`${X402}refunds.signer = { private_key = "${key}" }\n${TOKEN}`);
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.refunds"]);
});

test("Operators see what a reload leaves as it was", async () => {
  const jobs = (name: string, onFailure: string) =>
    `[[jobs]]\njob_index = 0\nname = "${name}"\nmode = "public_paid"\nprice_wei = "1000000000000000"\non_failure = "${onFailure}"\n`;
  const account = `refunds.signer = { private_key = "0x${"01".repeat(32)}" }\n`;
  const token = `${TOKEN}rpc_url = "http://127.0.0.1:9"\n`;
  const running = await configOf(`${X402}${token}${jobs("old", "keep")}`);
  const timeout = "facilitator_timeout_secs = 5\nquote_ttl_secs = 60\n";
  const other = X402.replace("facilitator.example.com", "other.example.com");
  const next = await configOf(`${other}${timeout}${account}${token}${jobs("new", "ask")}[webhooks]\n`);
  expect(changesThatNeedRestart(running, next)).toEqual([
    "x402.facilitator_timeout_secs",
    "x402.facilitators",
    "x402.refunds",
    "webhooks",
    "jobs.on_failure",
  ]);
  const { shown } = afterReload(running, next);
  expect(shown).toMatchObject({
    x402: {
      facilitators: [{ url: "https://facilitator.example.com" }],
      facilitator_timeout_secs: 30,
      quote_ttl_secs: 60,
    },
    jobs: [{ name: "new", price_wei: "1000000000000000" }],
  });
  expect(shown).not.toHaveProperty("webhooks");
  expect(shown.x402).not.toHaveProperty("refunds");
  expect(shown.jobs).toHaveProperty([0, "on_failure"], "keep");
});

test("After a reload operators see the origins of the secrets that are in use", async () => {
  const of = async (name: string, keystore: { readonly file: string; readonly password: string }) => {
    const toml = `${X402}refunds.signer = { keystore = "account.json", password = "env:${name}" }\n${TOKEN}[runner]\ntoken = "env:${name}"\n`;
    const env = { [name]: keystore.password };
    const result = await loadFiles({ "jobgate.toml": toml, "account.json": keystore.file }, { env });
    if (!result.ok) throw new Error(JSON.stringify(result.mistakes));
    return result.config;
  };
  const running = await of("OLD", KEYSTORES.pbkdf2);
  const next = await of("NEW", KEYSTORES["scrypt with blocks of 1"]);
  const { x402, runner } = afterReload(running, next).shown;
  expect(x402).toMatchObject({ refunds: (running.shown.x402 as ShownTable).refunds });
  expect(x402).toMatchObject({ refunds: { signer: { password: "environment variable OLD" } } });
  expect(runner).toMatchObject({ token: "environment variable NEW" });
});

test("A reload turns TLS and client certificates neither on nor off, and replaces their files", async () => {
  const certificates = await makeCertificates();
  onTestFinished(() => certificates.stop());
  const withTls = (name: string, more = "") =>
    configOf(
      `[runner.tls]\ncert = "${certificates.file(`${name}.pem`)}"\nkey = "${certificates.file(`${name}.key`)}"\n${more}`,
    );
  const plain = await configOf("");
  const old = await withTls("server");
  const replaced = await withTls("runner");
  const asking = await withTls("server", `client_ca = "${certificates.file("authority.pem")}"\n`);
  expect(changesThatNeedRestart(old, replaced)).toEqual([]);
  expect(afterReload(old, replaced)).toEqual(replaced);
  expect(changesThatNeedRestart(old, plain)).toEqual(["runner.tls"]);
  expect(changesThatNeedRestart(plain, old)).toEqual(["runner.tls"]);
  expect(afterReload(old, plain)).toEqual(old);
  expect(changesThatNeedRestart(old, asking)).toEqual(["runner.tls.client_ca"]);
  expect(afterReload(old, asking).runner.tls).not.toHaveProperty("clientCa");
});

test("A reload that leaves out the token of a listener does not open the listener to everyone", async () => {
  const at = (address: string, token: string) =>
    configOf(
      ["runner", "operator"].map((table) => `[${table}]\nbind_address = "${address}"\n${token}`).join(""),
    );
  const running = await at("0.0.0.0:0", 'token = "old"\n');
  const next = await at("127.0.0.1:0", "");
  expect(changesThatNeedRestart(running, next)).toEqual([
    "runner.bind_address",
    "runner.token",
    "operator.bind_address",
    "operator.token",
  ]);
  expect(afterReload(running, next)).toMatchObject({
    runner: { tokens: ["old"] },
    operator: { tokens: ["old"] },
  });
  expect(afterReload(next, running).runner.tokens).toEqual(["old"]);
});

test("What follows from a key that waits for the restart waits with it", async () => {
  const withoutUrl = X402.replace(/^public_url.*$/m, "");
  const at = (port: number) => configOf(`${withoutUrl}bind_address = "127.0.0.1:${port}"\n${TOKEN}`);
  const { x402, shown } = afterReload(await at(1), await at(2));
  expect(x402?.publicUrl).toBe("http://127.0.0.1:1");
  expect(shown.x402).toMatchObject({ public_url: "http://127.0.0.1:1" });
});

test("Jobs are sold on when the next file leaves [x402] out", async () => {
  const job =
    '[[jobs]]\njob_index = 0\nname = "sold"\nmode = "public_paid"\nprice_wei = "1000000000000000"\n';
  const running = await configOf(`${X402}${TOKEN}${job}`);
  const next = await configOf("");
  expect(changesThatNeedRestart(running, next)).toEqual(["x402", "jobs"]);
  expect(afterReload(running, next)).toEqual(running);
});

test("A facilitator can be listed where it was the only facilitator without a list", async () => {
  const running = await configOf(`${X402}${TOKEN}`);
  const list =
    '[[x402.facilitators]]\nurl = "https://facilitator.example.com"\nauth.headers = { X-Key = "new" }\n';
  const next = await configOf(`${X402.replace(/^facilitator_url.*$/m, "")}${list}${TOKEN}`);
  expect(changesThatNeedRestart(running, next)).toEqual([]);
  expect(afterReload(running, next)).toEqual(next);
});

test("A change of the facilitator or of a whole table is named by its key in the file", async () => {
  const running = await configOf(`${X402}${TOKEN}${ENGINE}`);
  const facilitator = `${X402.replace("facilitator.example", "other.example")}facilitator_timeout_secs = 5\n`;
  expect(changesThatNeedRestart(running, await configOf(`service_id = 3\n${facilitator}${TOKEN}`))).toEqual([
    "service_id",
    "x402.facilitator_timeout_secs",
    "x402.facilitators",
    "pricing_engine",
  ]);
  expect(changesThatNeedRestart(running, await configOf(ENGINE))).toContain("x402");
});

test("Prices wait for the restart together with a change of the price source", async () => {
  const price = (wei: bigint) => `${ENGINE}[job_pricing.1]\n0 = "${wei}"\n`;
  const running = await configOf(`${X402}${TOKEN}${price(10n ** 15n)}`);
  const next = await configOf(`${X402}price_source = "engine"\nquote_ttl_secs = 60\n${TOKEN}${price(1n)}`);
  expect(changesThatNeedRestart(running, next)).toEqual(["x402.price_source", "job_pricing"]);
  expect(afterReload(running, next).x402).toMatchObject({
    priceSource: "map",
    jobPricing: new Map([["1/0", 10n ** 15n]]),
    quoteTtlSecs: 60,
  });
  const dearer = await configOf(`${X402}${TOKEN}${price(2n * 10n ** 15n)}`);
  expect(afterReload(running, dearer).x402?.jobPricing).toEqual(new Map([["1/0", 2n * 10n ** 15n]]));
});
