import { expect, test } from "vitest";
import { apisTable } from "../../../../src/parts/apis/config.ts";
import { configOf, TOKEN, X402 } from "../../../config/config-folder.ts";
import { testMistakes } from "../../../config/mistake-cases.ts";

const job = (more = 'price = "$0.01"\nmode = "public_paid"') => `
[[jobs]]
route = "GET /weather/{city}"
api = "weather"
${more}`;
const api = (access: string, mark = "") => `${X402}${TOKEN}currency = "USD"
rpc_url = "http://127.0.0.1:8545"
[[apis]]
name = "weather"
url = "http://127.0.0.1:8000"
[[apis.access]]${mark}
${access}`;
const KEY = "ab".repeat(32);
const ADDRESS = `0x${"1".repeat(40)}`;

testMistakes([
  {
    promise: "A way in that says no way is a mistake",
    toml: `${api("rate = 1", " #!")}${job()}`,
    keyPath: "apis[0].access[0]",
    message: /has no way in; expected one of api_keys, sign_in and paid_within_secs/,
  },
  {
    promise: "Two ways in one table are a mistake",
    toml: `${api(`paid_within_secs = 60\nsign_in = ["${ADDRESS}"]`, " #!")}${job()}`,
    keyPath: "apis[0].access[0]",
    message: /has sign_in and paid_within_secs; expected one of/,
  },
  {
    promise: "A key that is no digest is a mistake, which does not quote it",
    toml: `${api(`api_keys = "# keys\\nada ${KEY}\\nada-2 my-secret-key" #!`)}${job()}`,
    keyPath: "apis[0].access[0].api_keys",
    message: /^(?!.*my-secret-key).*has something else in line 3; expected lines with a name and the SHA-256/,
  },
  {
    promise: "A list without a key is a mistake",
    toml: `${api('api_keys = "# none yet" #!')}${job()}`,
    keyPath: "apis[0].access[0].api_keys",
    message: /has no key/,
  },
  ...[`ada ${KEY}\\nada ${"cd".repeat(32)}`, `ada ${KEY}\\nbob ${KEY.toUpperCase()}`].map((keys, i) => ({
    promise: `A ${i === 0 ? "name" : "key"} that is there twice is a mistake`,
    toml: `${api(`api_keys = "${keys}" #!`)}${job()}`,
    keyPath: "apis[0].access[0].api_keys",
    message: /has a key twice \((ada|bob)\)/,
  })),
  {
    promise: "A way into an API with a restricted job is a mistake",
    toml: `${api(`sign_in = ["${ADDRESS}"]`, " #!")}${job(`price = "$0.01"
mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "http://127.0.0.1:8545"
chain_contract = "${ADDRESS}"`)}`,
    keyPath: "apis[0].access[0]",
    message: /without the permission that jobs\[0\] asks for/,
  },
  {
    promise: "Access by an earlier payment is a mistake where the price depends on the request",
    toml: `${api("paid_within_secs = 60 #!")}${job(`price = { of = "query:units", cases = { k = "$0.02" }, other = "$0.01" }
mode = "public_paid"
[jobs.input.query]
units = { type = "string" }`)}`,
    keyPath: "apis[0].access[0].paid_within_secs",
    message: /jobs\[0\]\.price depends on the request; expected a fixed price/,
  },
]);

test("Ways in are read with the names and digests of their keys, which a rate of 10 limits by default", async () => {
  const access = `api_keys = "file:$DIR/keys"
[[apis.access]]
sign_in = ["${ADDRESS}"]
rate = 3`;
  const keys = `# staff\n\nada ${KEY.toUpperCase()}\nbob@home\t${"cd".repeat(32)}\n`;
  const config = await configOf({ "jobgate.toml": `${api(access)}${job()}`, keys });
  expect(apisTable.in(config)?.[0]?.access).toEqual([
    {
      apiKeys: [
        { name: "ada", sha256: KEY },
        { name: "bob@home", sha256: "cd".repeat(32) },
      ],
      rate: 10,
    },
    { signIn: [ADDRESS], rate: 3 },
  ]);
});
