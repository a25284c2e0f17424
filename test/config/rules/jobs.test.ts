import { expect, test } from "vitest";
import { loadConfigWith } from "../../../src/config/load-config.ts";
import { configOf, loadFiles, mistakesOf, NO_PARTS, TOKEN, X402 } from "../config-folder.ts";
import { POLICY, testMistakes } from "../mistake-cases.ts";

const USD_TOKEN = `${TOKEN}currency = "USD"\n`;
const GATEWAY = `service_id = 1\n${X402}${USD_TOKEN}`;
const job = (keys: string, index = 0) => `[[jobs]]\njob_index = ${index}\n${keys}\n`;

test("A job has everything that its entry says, and the gateway's service", async () => {
  const { x402 } = await configOf(`${GATEWAY}[[jobs]]
job_index = 3
name = "summarise"
title = "Summarise a text"
description = """
Returns a summary.

In one sentence."""
tags = ["text", "ai"]
mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "http://127.0.0.1:8545"
chain_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
price = "$0.01"
charge = "before"
on_failure = "keep"
output = { content_type = "text/plain; charset=utf-8" }
max_run_secs = 120
`);
  const policy = {
    serviceId: 1n,
    jobIndex: 3,
    invocationMode: "restricted_paid",
    restriction: {
      authMode: "payer_is_caller",
      chainRpcUrl: "http://127.0.0.1:8545/",
      chainContract: "0x0165878A594ca255338adfa4d48449f69242Eb8F",
      permissionCacheSecs: 0,
    },
  };
  expect(x402?.jobs).toEqual([
    {
      serviceId: 1n,
      jobIndex: 3,
      name: "summarise",
      title: "Summarise a text",
      description: "Returns a summary.\n\nIn one sentence.",
      tags: ["text", "ai"],
      policy,
      price: { unit: "usd", amount: 10n ** 16n },
      output: { contentType: "text/plain; charset=utf-8" },
      maxRunSecs: 120,
    },
  ]);
  expect(x402?.jobPolicies).toEqual([policy]);
});

test("A job's mode and price may also be in job_policies and job_pricing", async () => {
  const { x402 } = await configOf(
    `${GATEWAY}${POLICY}${job('name = "a"')}[job_pricing.1]\n0 = "1000000000000000"\n`,
  );
  expect(x402?.jobs).toEqual([{ serviceId: 1n, jobIndex: 0, name: "a" }]);
  expect(x402?.jobPricing).toEqual(new Map([["1/0", 10n ** 15n]]));
});

test("A dollar price needs no rate, and a wei price no currency", async () => {
  const unrated = USD_TOKEN.replace(/rate_per_native_unit.*\n/, "");
  expect(await mistakesOf(`${X402}${unrated}${job('mode = "public_paid"\nprice = "$0.01"')}`)).toEqual([]);
  expect(
    await mistakesOf(`${X402}${TOKEN}${job('mode = "public_paid"\nprice_wei = "1000000000000000"')}`),
  ).toEqual([]);
});

test("A job with a price and no mode is not sold, which is a warning, unless jobs are sold by default", async () => {
  const warningsOf = async (toml: string) => {
    const result = await loadFiles(toml);
    return result.ok && result.warnings.map(({ keyPath, message }) => `${keyPath} ${message}`);
  };
  const priced = job('price = "$0.01"');
  expect(await warningsOf(`${GATEWAY}${priced}`)).toEqual([
    'jobs[0].mode is missing, so the job is not for sale; expected "public_paid" to sell it',
  ]);
  const byDefault = GATEWAY.replace("[x402]", '[x402]\ndefault_invocation_mode = "public_paid"');
  expect(await warningsOf(`${byDefault}${priced}`)).toEqual([]);
  expect(await warningsOf(`${GATEWAY}${priced}${POLICY}`)).toEqual([]);
});

test("Jobs without [x402] are not sold, which is a warning", async () => {
  const result = await loadFiles(job('price = "$1"'));
  expect(result.ok && result.warnings.map(({ message }) => message)).toEqual([
    "are not sold, because there is no [x402]",
  ]);
});

test("A build refuses values that need a part which the build does not have", async () => {
  const engine = GATEWAY.replace("[x402]", '[x402]\nprice_source = "engine"');
  const store = '[store]\nurl = "postgres://jobgate:hunter2@127.0.0.1/jobgate"\n';
  const toml = `${engine}rpc_url = "http://127.0.0.1:1"\n${job('on_failure = "refund"\nprice = "engine"')}${POLICY}${store}`;
  const result = await loadConfigWith(NO_PARTS, { path: "jobgate.toml", toml, env: {} });
  expect(result.ok ? [] : result.mistakes).toMatchObject([
    {
      keyPath: "x402.price_source",
      message: 'is "engine", and this build has no pricing engine; expected "map"',
    },
    {
      keyPath: "jobs[0].on_failure",
      message: 'is "refund"; expected "keep"',
    },
    {
      keyPath: "jobs[0].price",
      message: 'is "engine", and this build has no pricing engine; expected dollars',
    },
    {
      keyPath: "x402.job_policies[0].invocation_mode",
      message:
        'is "restricted_paid", and this build has no restricted jobs; expected "public_paid" or "disabled"',
    },
    {
      keyPath: "store.url",
      message:
        'is "postgres://127.0.0.1/jobgate", and this build has no store for postgres: URLs; expected a store.url of sqlite:PATH',
    },
  ]);
});

testMistakes([
  {
    promise: "Two jobs with one name are a mistake",
    toml: `${GATEWAY}${job('name = "a"')}${job('name = "a" #!', 1)}`,
    keyPath: "jobs[1].name",
    message: /is the same as in jobs\[0\].name; expected a name of its own/,
  },
  {
    promise: "The name by which agents call another job without a name is a mistake",
    toml: `${GATEWAY}${job('name = "job-1-7" #!')}`,
    keyPath: "jobs[0].name",
    message: /is what agents call another job without a name; expected another name/,
  },
  {
    promise: "Two entries for one job are a mistake, however their service is given",
    toml: `${GATEWAY}${job('name = "a"')}[[jobs]]\nservice_id = 1\njob_index = 0 #!\n`,
    keyPath: "jobs[1].job_index",
    message: /is the same as in jobs\[0\].job_index; expected each job once/,
  },
  {
    promise: "A mode beside an entry in job_policies is a mistake",
    toml: `${GATEWAY}${POLICY}${job('price = "$1"\nmode = "public_paid" #!')}`,
    keyPath: "jobs[0].mode",
    message: /is set beside x402.job_policies\[0\]/,
  },
  {
    promise: "A price beside an entry in job_pricing is a mistake",
    toml: `${GATEWAY}${job('price = "$1" #!')}[job_pricing.1]\n0 = "1000000000000000"\n`,
    keyPath: "jobs[0].price",
    message: /is set beside job_pricing.1.0/,
  },
  {
    promise: "Two prices of one job are a mistake",
    toml: `${GATEWAY}${job('price = "$1"\nprice_wei = "1000000000000000" #!')}`,
    keyPath: "jobs[0].price_wei",
    message: /is set beside price/,
  },
  {
    promise: "A job for sale without a price is a mistake",
    toml: `${GATEWAY}[[jobs]] #!\njob_index = 0\nmode = "public_paid"\n`,
    keyPath: "jobs[0].price",
    message: /is missing; expected a price such as/,
  },
  {
    promise: "A restricted job needs its contract",
    toml: `${GATEWAY}[[jobs]] #!\njob_index = 0\nmode = "restricted_paid"\nauth_mode = "payer_is_caller"\nchain_rpc_url = "http://127.0.0.1:8545"\nprice = "$1"\n`,
    keyPath: "jobs[0].chain_contract",
    message: /since mode is "restricted_paid"/,
  },
  {
    promise: "A dollar price that no token can pay is a mistake",
    toml: `${X402}${TOKEN}${job('mode = "public_paid"\nprice = "$1" #!')}`,
    keyPath: "jobs[0].price",
    message: /none of x402.accepted_tokens; expected one with currency = "USD"/,
  },
  {
    promise: "A wei price that no token can pay is a mistake",
    toml: `${X402}${USD_TOKEN.replace(/rate_per_native_unit.*\n/, "")}${job('mode = "public_paid"\nprice_wei = "1000" #!')}`,
    keyPath: "jobs[0].price_wei",
    message: /expected one with rate_per_native_unit/,
  },
  {
    promise: "A dollar price that rounds to 0 is a mistake",
    toml: `${X402}${USD_TOKEN.replace("decimals = 6", "decimals = 2")}${job('mode = "public_paid"\nprice = "$0.009" #!')}`,
    keyPath: "jobs[0].price",
    message: /rounds to 0 of x402.accepted_tokens\[0\]; expected at least \$0.01,/,
  },
  {
    promise: "A dollar price that does not fit u64 is a mistake",
    toml: `${X402}${USD_TOKEN.replace("decimals = 6", "decimals = 18")}${job('mode = "public_paid"\nprice = "$18.446745" #!')}`,
    keyPath: "jobs[0].price",
    message: /too much of .* expected at most \$18.446744,/,
  },
  {
    promise: "Seven decimal places are a mistake",
    toml: `${GATEWAY}${job('price = "$0.0000001" #!')}`,
    keyPath: "jobs[0].price",
    message: /at most 6 decimal places/,
  },
  {
    promise: "A price without the dollar sign is a mistake",
    toml: `${GATEWAY}${job('price = "0.01" #!')}`,
    keyPath: "jobs[0].price",
    message: /is "0.01"; expected .* such as "\$0.01", or "engine"(, or a table)?; did you mean "\$0.01"\?/,
    suggestion: "$0.01",
  },
  {
    promise: "A price of nothing is a mistake",
    toml: `${GATEWAY}${job('price = "$0.00" #!')}`,
    keyPath: "jobs[0].price",
    message: /dollars above 0/,
  },
  {
    promise: "A charge is one that jobgate knows",
    toml: `${GATEWAY}${job('charge = "metered" #!')}`,
    keyPath: "jobs[0].charge",
    message: /is "metered"; expected "before"(,| or) "after"/,
  },
  {
    promise: "A job is charged at some time",
    toml: `${GATEWAY}${job("charge = [] #!")}`,
    keyPath: "jobs[0].charge",
    message: /is empty; expected an array of "before" or "after"/,
  },
  {
    promise: "A job is charged before or after it runs",
    toml: `${GATEWAY}${job('charge = ["before", "after"] #!')}`,
    keyPath: "jobs[0].charge",
    message: /has "before" and "after"; expected one of them/,
  },
  {
    promise: "A job that is charged after it ran needs a token with rpc_url",
    toml: `${GATEWAY}${job('charge = "after" #!')}`,
    keyPath: "jobs[0].charge",
    message: /is "after", which no accepted token can be paid by; expected a token with rpc_url, or "before"/,
  },
  {
    promise: "A name with capitals is a mistake",
    toml: `${GATEWAY}${job('name = "Summarise" #!')}`,
    keyPath: "jobs[0].name",
    message: /lower-case letters, digits and hyphens/,
    suggestion: "summarise",
  },
]);
