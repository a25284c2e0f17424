import { TOKEN, X402 } from "../config-folder.ts";
import { POLICY, testMistakes } from "../mistake-cases.ts";

const SOLD = `[[jobs]]
job_index = 0
name = "NAME"
mode = "public_paid"
price_wei = "1000000000"
`;

testMistakes([
  {
    promise: "A job whose only token is for another job is a mistake",
    toml: `service_id = 1\n${X402}${TOKEN}jobs = ["a"]\n${SOLD.replace("NAME", "a")}${SOLD.replace(
      "NAME",
      "b",
    )
      .replace("= 0", "= 1")
      .replace(/price_wei.*/, "$& #!")}`,
    keyPath: "jobs[1].price_wei",
    message: /can be paid in none of x402.accepted_tokens/,
  },
  {
    promise: "A price that only another job's token can take is a mistake",
    toml: `service_id = 1\n${X402}${TOKEN}${TOKEN.replace("decimals = 6", "decimals = 0")}jobs = ["a"]\n${SOLD.replace("NAME", "a").replace(/price_wei.*/, "$& #!")}`,
    keyPath: "jobs[0].price_wei",
    message: /rounds to 0 of x402.accepted_tokens\[1\]/,
  },
  {
    promise: "A service id with a leading zero is a mistake",
    toml: '[job_pricing.01] #!\n0 = "1"',
    keyPath: "job_pricing.01",
    message: /canonical decimal/,
  },
  {
    promise: "A job index with a leading zero is a mistake",
    toml: '[job_pricing.1]\n1 = "1"\n01 = "2" #!',
    keyPath: "job_pricing.1.01",
    message: /canonical decimal/,
  },
  {
    promise: "A job index above u32 as a key is a mistake",
    toml: '[job_pricing.1]\n4294967296 = "1" #!',
    keyPath: "job_pricing.1.4294967296",
    message: /below 2\^32/,
  },
  {
    promise: "Wei as a number is a mistake",
    toml: "[job_pricing.1]\n0 = 1000 #!",
    keyPath: "job_pricing.1.0",
    message: /is 1000; expected an amount of wei as a string.*; did you mean "1000" in quotes\?/,
    suggestion: "1000",
  },
  {
    promise: "Wei above 2^256 is a mistake",
    toml: `[job_pricing.1]\n0 = "${2n ** 256n}" #!`,
    keyPath: "job_pricing.1.0",
    message: /wei as a string/,
  },
  {
    promise: "An enabled price that rounds to 0 is a mistake",
    toml: `${X402}default_invocation_mode = "public_paid"\n${TOKEN}[job_pricing.1]\n0 = "312499999" #!`,
    keyPath: "job_pricing.1.0",
    message: /rounds to 0 of x402.accepted_tokens\[0\]; expected at least 312500000 wei/,
  },
  {
    promise: "A price that a policy enables and that rounds to 0 is a mistake",
    toml: `${X402}${TOKEN}${POLICY}[job_pricing.1]\n0 = "1" #!`,
    keyPath: "job_pricing.1.0",
    message: /rounds to 0/,
  },
  {
    promise: "An enabled price that does not fit u64 is a mistake",
    toml: `${X402}${TOKEN}${POLICY}[job_pricing.1]\n0 = "${10n ** 40n}" #!`,
    keyPath: "job_pricing.1.0",
    message: /too much of x402.accepted_tokens\[0\] for u64; expected at most/,
  },
]);
