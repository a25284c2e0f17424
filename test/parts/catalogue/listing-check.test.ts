import { expect, it } from "vitest";
import { runHereWith } from "../../commands/operator-commands.ts";

const PAY_TO = "0x1111111111111111111111111111111111111111";
const SCHEMAS = { "in.json": '{"type":"object"}', "out.json": '{"type":"object"}' };
const WHOLE = `description = "Does it."
input = { schema = "in.json" }
output = { content_type = "application/json", schema = "out.json" }
`;

/** Lines of `jobgate check --listing` about a seller of these jobs. */
async function listing({
  seller = "",
  jobs,
  onBase,
  publicUrl = "https://jobs.example.com",
}: {
  readonly seller?: string;
  readonly jobs: string;
  /** Names of the jobs that are sold on Base; the others are sold on its test network. */
  readonly onBase: readonly string[];
  readonly publicUrl?: string;
}) {
  const config = `service_id = 1
[x402]
public_url = "${publicUrl}"
facilitator_url = "https://facilitator.example.com"
${seller}
[[x402.accepted_tokens]]
network = "base"
token = "USDC"
pay_to = "${PAY_TO}"
jobs = ${JSON.stringify(onBase)}
[[x402.accepted_tokens]]
network = "base-sepolia"
token = "USDC"
pay_to = "${PAY_TO}"
rpc_url = "https://rpc.example.com"
${jobs}`;
  const files = { "jobgate.toml": config, ...SCHEMAS };
  const { code, stdout } = await runHereWith(["check", "--listing"], { files });
  expect([code, stdout]).toEqual([0, expect.stringMatching(/ok \(.*\)\n$/)]);
  return stdout.split("\n").slice(0, -2);
}
const job = (name: string, index: number, keys: string) =>
  `[[jobs]]\njob_index = ${index}\nname = "${name}"\n${keys}${keys.includes("mode") ? "" : 'mode = "public_paid"\n'}`;
const FACE =
  'title = "Jobs"\ncontact = "jobs@example.com"\nlogo = "https://example.com/logo.png"\nguidance = "Ask first."';

it("A job that every catalogue lists, and every client buys, leaves nothing to say but who lists it", async () => {
  const jobs = job("shout", 0, `${WHOLE}price = "$1"\n`);
  expect(await listing({ seller: FACE, jobs, onBase: ["shout"] })).toEqual([
    "x402scan: would list 1 of 1 jobs",
    "bazaar of facilitators: would list 1 of 1 jobs",
    "x402.json, ERC-8004: would list 1 of 1 jobs",
  ]);
});

it("Says of each job why a catalogue would not list it, why clients do not buy it, and what is missing", async () => {
  const restricted = `mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "https://rpc.example.com"
chain_contract = "${PAY_TO}"
`;
  const jobs = [
    job("shout", 0, `${WHOLE}price = "$0.01"\n`),
    job("render", 1, `${WHOLE}price = "$1.000001"\n`),
    job("test-only", 2, 'price = "$0.01"\n'),
    job("members", 3, `${restricted}${WHOLE}price = "$0.01"\n`),
    job("hidden", 4, `mode = "disabled"\nprice = "$9"\n`),
  ].join("");
  expect(await listing({ jobs, onBase: ["shout", "render", "members", "hidden"] })).toEqual([
    "x402scan: would list 3 of 4 jobs",
    "x402scan: would not list test-only: no token of it is on Base or Solana",
    "x402scan: shows more of a seller with x402.contact, x402.logo, x402.guidance",
    "bazaar of facilitators: would list 4 of 4 jobs",
    "x402.json, ERC-8004: would list 4 of 4 jobs",
    "x402.json, ERC-8004: shows more of a seller with x402.title, x402.logo",
    "official clients do not buy render by default: it can cost more than $1.00, their limit for a payment, which buyers can raise (spendControls)",
    "official clients do not buy members by default: it is for callers whom a contract permits",
    "catalogues show less of test-only: it has no description",
    "catalogues show less of test-only: it has no input.schema",
    "catalogues show less of test-only: it has no output.schema",
  ]);
});

it.each([
  ["https://10.0.0.5", "a host that the internet knows"],
  ["http://localhost:8402", "https and a host that the internet knows"],
  ["https://example.com/pay", "no path"],
])("Says that nothing is listed at %s", async (publicUrl, expected) => {
  const jobs = job("shout", 0, `${WHOLE}price = "$0.01"\n`);
  const [line] = await listing({ seller: FACE, jobs, onBase: ["shout"], publicUrl });
  expect(line).toBe(`x402scan: would list no job: public_url is ${publicUrl}; expected ${expected}`);
});

it("Says which terms clients do not meet by themselves, wants no schema of a picture, and names many jobs", async () => {
  const picture = `description = "Draws it."
title = "T"
input = { content_type = "text/plain" }
output = { content_type = "image/png" }
require_payment_identifier = true
price = "$0.01"
`;
  const jobs = Array.from({ length: 41 }, (_, i) => job(`job-${i}`, i, picture));
  const names = jobs.map((_, i) => `job-${i}`);
  expect(await listing({ seller: FACE, jobs: jobs.join(""), onBase: names })).toEqual([
    "x402scan: would list 41 of 41 jobs",
    "x402scan: warns of more than 40 jobs",
    "bazaar of facilitators: would list 41 of 41 jobs",
    "x402.json, ERC-8004: would list 41 of 41 jobs",
    `official clients do not buy ${names.join(", ")} by default: it is sold only with a payment identifier`,
  ]);
});

it("Says that nothing is listed without https, and without a job", async () => {
  const jobs = job("shout", 0, `${WHOLE}price = "$0.01"\n`);
  const lines = await listing({
    seller: FACE,
    jobs,
    onBase: ["shout"],
    publicUrl: "http://jobs.example.com",
  });
  expect(lines).toEqual(
    ["x402scan", "bazaar of facilitators", "x402.json, ERC-8004"].map(
      (name) => `${name}: would list no job: public_url is http://jobs.example.com; expected https`,
    ),
  );
  const hidden = job("hidden", 0, `mode = "disabled"\nprice = "$9"\n`);
  expect(await listing({ jobs: hidden, onBase: ["hidden"] })).toEqual([
    "no job is for sale, so that no catalogue lists any",
  ]);
});
