import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { configOf, TOKEN } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const PUBLIC = '[x402]\npublic_url = "https://operator.example.com"\n';
const REMOTE = '[[x402.facilitators]]\nurl = "https://facilitator.example.com"\n';
const PEM = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({
  format: "pem",
  type: "pkcs8",
});
const KEY = `{ key_id = "k", key_secret = ${JSON.stringify(PEM)} }`;
/** File with these facilitators. */
const file = (facilitators: string) => `${PUBLIC}${facilitators}${TOKEN}`;
const at = (key: string) => `x402.facilitators[0]${key}`;

test("A facilitator has the key of its entry, beside the headers", async () => {
  const key = `${REMOTE}${REMOTE.replace("://", "://other-")}auth = { cdp = ${KEY}, headers = { X-A = "b" } }\n`;
  const { x402 } = await configOf(file(key));
  expect(x402?.facilitators).toMatchObject([{}, { headers: { "X-A": "b" }, auth: { keyId: "k" } }]);
  expect(x402?.facilitators[0]).not.toHaveProperty("auth");
});

testMistakes([
  {
    promise: "A CDP secret that is no key is a mistake",
    toml: file(`${REMOTE}auth.cdp = { key_id = "k", key_secret = "hunter2" } #!\n`),
    keyPath: at(".auth.cdp.key_secret"),
    message: /base64 of an Ed25519 key/,
  },
  {
    promise: "A CDP secret whose public key is of another secret is a mistake",
    toml: file(
      `${REMOTE}auth.cdp = { key_id = "k", key_secret = "${Buffer.alloc(64, "hunter2").toString("base64")}" } #!\n`,
    ),
    keyPath: at(".auth.cdp.key_secret"),
    message: /base64 of an Ed25519 key/,
  },
  {
    promise: "A CDP key beside another Authorization header is a mistake",
    toml: file(`${REMOTE}auth = { headers = { authorization = "hunter2" }, cdp = ${KEY} } #!\n`),
    keyPath: at(".auth"),
    message: /twice; expected only one of the URL's credentials, headers.Authorization, cdp$/,
  },
]);
