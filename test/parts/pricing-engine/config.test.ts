import { expect, test } from "vitest";
import { engineTable } from "../../../src/parts/pricing-engine/config.ts";
import { loadFiles, TOKEN, X402 } from "../../config/config-folder.ts";
import { header, testMistakes } from "../../config/mistake-cases.ts";

const ENGINE = '[pricing_engine]\nurl = "http://10.0.0.7:50051"\n';
const SIGNING = `chain_id = 8453
verifying_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F"
operator_address = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
`;
const engine = (key: string, value: string) => ({
  toml: `${ENGINE}${SIGNING.replace(new RegExp(`^${key} = .*\n`, "m"), "")}${key} = ${value} #!\n`,
  keyPath: `pricing_engine.${key}`,
});
const missing = (key: string) => ({
  toml: header(`${ENGINE}${SIGNING.replace(new RegExp(`^${key} = .*\n`, "m"), "")}`, "[pricing_engine]"),
  keyPath: `pricing_engine.${key}`,
  message: /is missing; expected it, since pricing_engine.(chain_id|verifying_contract) is set/,
});

testMistakes([
  { promise: "A signer without a chain is a mistake", ...missing("chain_id") },
  { promise: "A signer without a contract is a mistake", ...missing("verifying_contract") },
  { promise: "A contract without a signer is a mistake", ...missing("operator_address") },
  { promise: "Chain 0 is a mistake", ...engine("chain_id", "0"), message: /from 1 to/ },
  {
    promise: "A contract with a wrong checksum is a mistake",
    ...engine("verifying_contract", '"0x0165878A594ca255338adfa4d48449f69242Eb8f"'),
    message: /wrong checksum/,
  },
  {
    promise: "The zero address as signer is a mistake",
    ...engine("operator_address", '"0x0000000000000000000000000000000000000000"'),
    message: /zero address/,
  },
  {
    promise: "A proof of work that takes longer than it is valid is a mistake",
    ...engine("proof_of_work_bits", "29"),
    message: /from 0 to 28/,
  },
  {
    promise: "An engine URL with credentials in the clear is a mistake",
    toml: `[pricing_engine]\nurl = "http://user:hunter2@10.0.0.7:50051" #!\n${SIGNING}`,
    keyPath: "pricing_engine.url",
    message: /credentials in the clear/,
  },
  {
    promise: "Prices from the engine need its table",
    toml: `${X402}price_source = "engine"\n${TOKEN}`,
    keyPath: "pricing_engine",
    message: /^is missing; expected the table, since x402.price_source is "engine"$/,
  },
  {
    promise: "A price of the engine needs its table",
    toml: `service_id = 1\n${X402}${TOKEN}[[jobs]]\njob_index = 0\nprice = "engine"\n`,
    keyPath: "pricing_engine",
    message: /since jobs\[0\].price is "engine"/,
  },
  {
    promise: "Prices from the engine need the keys to check its quotes",
    toml: header(`${X402}price_source = "engine"\n${TOKEN}${ENGINE}`, "[pricing_engine]"),
    keyPath: "pricing_engine.operator_address",
    message: /since x402.price_source is "engine"/,
  },
  {
    promise: "A price of the engine needs the keys that quotes are checked with",
    toml: `service_id = 1\n${X402}${TOKEN}[[jobs]]\njob_index = 0\nprice = "engine"\n[pricing_engine] #!\nurl = "http://127.0.0.1:9"\n`,
    keyPath: "pricing_engine.chain_id",
    message: /expected it, since jobs\[0\].price is "engine"/,
  },
]);

test("Each missing key is a mistake; a wrong one is not also missing", async () => {
  const none = await loadFiles(`${X402}price_source = "engine"\n${TOKEN}${ENGINE}`);
  const paths = none.ok ? [] : none.mistakes.map(({ keyPath }) => keyPath);
  expect(paths.toSorted()).toEqual([
    "pricing_engine.chain_id",
    "pricing_engine.operator_address",
    "pricing_engine.verifying_contract",
  ]);
  const wrong = await loadFiles(`${ENGINE}${SIGNING.replace("8453", "0")}`);
  expect(wrong.ok || wrong.mistakes.map(({ keyPath }) => keyPath)).toEqual(["pricing_engine.chain_id"]);
});

test("An engine whose quotes cannot be checked is a warning", async () => {
  const result = await loadFiles(ENGINE);
  const warnings = result.ok && result.warnings.map(({ keyPath, message }) => `${keyPath} ${message}`);
  expect(warnings).toEqual([
    "pricing_engine has no chain_id, verifying_contract, operator_address, so quotes cannot be checked, and so cannot be paid",
  ]);
  expect(result.ok && engineTable.in(result.config)).toEqual({
    url: "http://10.0.0.7:50051",
    bindAddress: { kind: "tcp", host: "127.0.0.1", port: 8404 },
    proofOfWorkBits: 20,
  });
});

test("An engine over http is accepted", async () => {
  const result = await loadFiles(`${ENGINE}${SIGNING}proof_of_work_bits = 12\n`);
  expect(result.ok && result.warnings).toEqual([]);
  expect(result.ok && engineTable.in(result.config)).toMatchObject({
    proofOfWorkBits: 12,
    signing: {
      chainId: 8453,
      verifyingContract: "0x0165878A594ca255338adfa4d48449f69242Eb8F",
      operatorAddress: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    },
  });
});
