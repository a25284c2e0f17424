import { expect, test } from "vitest";
import { loadConfigWith } from "../../../src/config/load-config.ts";
import { NO_PARTS, TOKEN } from "../config-folder.ts";
import { testMistakes } from "../mistake-cases.ts";

const PUBLIC = '[x402]\npublic_url = "https://operator.example.com"\n';
const REMOTE = '[[x402.facilitators]]\nurl = "https://facilitator.example.com"\n';
/** File with these facilitators. */
const file = (facilitators: string) => `${PUBLIC}${facilitators}${TOKEN}`;
const at = (key: string) => `x402.facilitators[0]${key}`;

test("Without failover a second facilitator is refused", async () => {
  const toml = file(`${REMOTE}${REMOTE.replace("//", "//second.")}`);
  const mistakesWith = async (abilities: readonly string[]) => {
    const parts = { ...NO_PARTS, abilities: new Set(abilities) };
    const result = await loadConfigWith(parts, { path: "jobgate.toml", toml, env: {} });
    return result.ok ? [] : result.mistakes;
  };
  expect(await mistakesWith(["failover"])).toEqual([]);
  expect(await mistakesWith([])).toMatchObject([
    {
      keyPath: "x402.facilitators",
      message: "has 2 entries, and this build has no failover; expected one",
    },
  ]);
});

testMistakes([
  {
    promise: "A gateway without a facilitator is a mistake",
    toml: file("").replace("[x402]", "[x402] #!"),
    keyPath: "x402.facilitator_url",
    message: /is missing; expected .*, or \[\[x402.facilitators\]\]/,
  },
  {
    promise: "A list beside facilitator_url is a mistake",
    toml: `${PUBLIC}facilitator_url = "https://a.example"\n${REMOTE.replace("]]", "]] #!")}${TOKEN}`,
    keyPath: "x402.facilitators",
    message: /only one of them/,
  },
  {
    promise: "An empty list of facilitators is a mistake",
    toml: file("facilitators = [] #!\n"),
    keyPath: "x402.facilitators",
    message: /is empty; expected an array of tables/,
  },
  {
    promise: "An entry without a URL is a mistake",
    toml: file("[[x402.facilitators]] #!\n"),
    keyPath: at(".url"),
    message: /is missing; expected it/,
  },
  {
    promise: "A facilitator in a list over http beyond loopback is a mistake",
    toml: file('[[x402.facilitators]]\nurl = "http://10.0.0.1" #!\n'),
    keyPath: at(".url"),
    message: /expected https:/,
  },
  {
    promise: "The same facilitator twice is a mistake, with other credentials too",
    toml: file(`${REMOTE}${REMOTE.replace("//", "//user:hunter2@").replace("]]", "]] #!")}`),
    keyPath: "x402.facilitators[1]",
    message: /same facilitator as x402.facilitators\[0\]/,
  },
  {
    promise: "A table of credentials without any is a mistake that names the kinds",
    toml: file(`${REMOTE}auth = {} #!\n`),
    keyPath: at(".auth"),
    message: /^is empty; expected headers( or \w+)*$/,
  },
  {
    promise: "A table of headers without any is a mistake",
    toml: file(`${REMOTE}auth.headers = {} #!\n`),
    keyPath: at(".auth"),
    message: /^is empty; expected headers/,
  },
  {
    promise: "Two credentials for one Authorization header are a mistake",
    toml: file(`${REMOTE.replace("//", "//user:hunter2@")}auth.headers = { authorization = "hunter2" } #!\n`),
    keyPath: at(".auth"),
    message: /sets the Authorization header twice/,
  },
  {
    promise: "A header that jobgate sets itself is a mistake",
    toml: file(`${REMOTE}auth.headers = { Host = "other.example" } #!\n`),
    keyPath: at(".auth.headers.Host"),
    message: /is set by jobgate/,
  },
  {
    promise: "A header with a line break is a mistake",
    toml: file(`${REMOTE}auth.headers = { X-Key = "hunter2\\r\\nHost: a" } #!\n`),
    keyPath: at(".auth.headers.X-Key"),
    message: /ASCII characters/,
  },
  {
    promise: "A token on a network that no facilitator settles on is a mistake",
    toml: `${PUBLIC}${REMOTE}networks = ["base"]\n${TOKEN.replace(/(network = .*)/, "$1 #!")}`,
    keyPath: "x402.accepted_tokens[0].network",
    message: /none of x402.facilitators settles on/,
  },
]);
