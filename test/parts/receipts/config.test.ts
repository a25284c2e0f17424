import { expect, test } from "vitest";
import { receiptsTable } from "../../../src/parts/receipts/config.ts";
import { configOf, mistakesOf, TOKEN } from "../../config/config-folder.ts";

const KEY = `0x${"5e".repeat(32)}`;
const file = (signer: string) => `[x402.receipts]
signer = ${signer}
[[x402.facilitators]]
local = true
signer = { private_key = "${KEY}" }
rpc_urls = { base-sepolia = "http://127.0.0.1:8545" }
[x402]
public_url = "https://operator.example.com"
${TOKEN}`;

test("The key that signs receipts may be a settler's", async () => {
  const config = await configOf(file(`{ private_key = "${KEY}" }`));
  expect(receiptsTable.in(config)).toEqual({ signer: { privateKey: KEY } });
});

test("A mistake in the key that signs receipts is found", async () => {
  expect(await mistakesOf(file("{}"))).toEqual([
    { place: "jobgate.toml:2 x402.receipts.signer", message: expect.stringMatching(/^has no key/) },
  ]);
});
