import { expect, test } from "vitest";
import { serviceTable } from "../../../src/parts/facilitator-service/config.ts";
import { configOf, TOKEN } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const PUBLIC = '[x402]\npublic_url = "https://operator.example.com"\n';
const REMOTE = '[[x402.facilitators]]\nurl = "https://facilitator.example.com"\n';
const LOCAL = `[[x402.facilitators]]
local = true
signer = { private_key = "0x${"5e".repeat(32)}" }
rpc_urls = { base-sepolia = "http://127.0.0.1:8545" }
`;
/** File with these facilitators. */
const file = (facilitators: string) => `${PUBLIC}${facilitators}${TOKEN}`;

testMistakes([
  {
    promise: "A facilitator service without a local facilitator is a mistake",
    toml: file(`${REMOTE}[x402.facilitator_service] #!\nbind_address = "127.0.0.1:8406"\ntokens = ["t"]\n`),
    keyPath: "x402.facilitator_service",
    message: /has nothing to serve/,
  },
  {
    promise: "A facilitator service without sellers is a mistake",
    toml: file(`${LOCAL}[x402.facilitator_service]\nbind_address = "127.0.0.1:8406"\ntokens = [] #!\n`),
    keyPath: "x402.facilitator_service.tokens",
    message: /is empty; expected an array of tokens, one for each seller/,
  },
  {
    promise: "One token for two sellers is a mistake",
    toml: file(
      `${LOCAL}[x402.facilitator_service]\nbind_address = "127.0.0.1:8406"\ntokens = ["hunter2", { name = "b", token = "hunter2" }] #!\n`,
    ),
    keyPath: "x402.facilitator_service.tokens[1]",
    message: /the token of another seller/,
  },
  {
    promise: "A facilitator service on the address of another listener is a mistake",
    toml: file(`${LOCAL}[x402.facilitator_service]\nbind_address = "0.0.0.0:8402" #!\ntokens = ["t"]\n`),
    keyPath: "x402.facilitator_service.bind_address",
    message: /is that of x402 too/,
  },
]);

test("A seller without a name is named by its place in the list", async () => {
  const config = await configOf(
    file(
      `${LOCAL}[x402.facilitator_service]\nbind_address = "127.0.0.1:8406"\ntokens = ["a", { name = "b", token = "c" }]\n`,
    ),
  );
  expect(serviceTable.in(config)?.tokens).toEqual([
    { name: "tokens[0]", token: "a" },
    { name: "b", token: "c" },
  ]);
});
