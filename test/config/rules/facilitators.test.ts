import { TOKEN } from "../config-folder.ts";
import { testMistakes } from "../mistake-cases.ts";

const PUBLIC = '[x402]\npublic_url = "https://operator.example.com"\n';
const REMOTE = '[[x402.facilitators]]\nurl = "https://facilitator.example.com"\n';
const LOCAL = `[[x402.facilitators]]
local = true
signer = { private_key = "0x${"5e".repeat(32)}" }
rpc_urls = { base-sepolia = "http://127.0.0.1:8545" }
`;
/** File with these facilitators. */
const file = (facilitators: string) => `${PUBLIC}${facilitators}${TOKEN}`;
const at = (key: string) => `x402.facilitators[0]${key}`;

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
    promise: "An entry that is neither remote nor local is a mistake",
    toml: file("[[x402.facilitators]] #!\n"),
    keyPath: at(".url"),
    message: /expected it, or local = true/,
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
    promise: "A signer of a remote facilitator is a mistake",
    toml: file(`${REMOTE}signer = { private_key = "hunter2" } #!\n`),
    keyPath: at(".signer"),
    message: /expected local = true beside it/,
  },
  {
    promise: "A URL of the local facilitator is a mistake",
    toml: file(`${LOCAL}url = "https://a.example" #!\n`),
    keyPath: at(".url"),
    message: /no such key beside local = true/,
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
  {
    promise: "jobgate as facilitator without a key is a mistake",
    toml: file(LOCAL.replace(/signer = .*\n/, "").replace("]]", "]] #!")),
    keyPath: at(".signer"),
    message: /key that signs transactions/,
  },
  {
    promise: "A private key that is too short is a mistake",
    toml: file(LOCAL.replace(/private_key = .*/, 'private_key = "0xhunter2" } #!')),
    keyPath: at(".signer.private_key"),
    message: /64 hex digits/,
  },
  {
    promise: "A private key that is too short is a mistake in a list too",
    toml: file(LOCAL.replace(/signer = .*/, 'signer = [{ private_key = "0xhunter2" }] #!')),
    keyPath: at(".signer[0].private_key"),
    message: /64 hex digits/,
  },
  {
    promise: "jobgate as facilitator without a chain is a mistake",
    toml: file(LOCAL.replace(/rpc_urls = .*/, "rpc_urls = {} #!")),
    keyPath: at(".rpc_urls"),
    message: /RPC of each network/,
  },
  {
    promise: "Two RPCs for one network are a mistake",
    toml: file(
      LOCAL.replace(" }\n[[", " }\n[[").replace(/ \}\n$/, ', "eip155:84532" = "http://127.0.0.1:1" } #!\n'),
    ),
    keyPath: `${at(".rpc_urls")}."eip155:84532"`,
    message: /same network as base-sepolia/,
  },
  {
    promise: "An RPC of an unknown network is a mistake",
    toml: file(LOCAL.replace(/base-sepolia = (.*)/, "sepoliah = $1 #!")),
    keyPath: at(".rpc_urls.sepoliah"),
    message: /not a valid key; expected a CAIP-2 EVM network.*; did you mean "sepolia"\?/,
    suggestion: "sepolia",
  },
  {
    promise: "A fee ceiling of zero is a mistake",
    toml: file(`${LOCAL}max_fee_per_gas_gwei = "0" #!\n`),
    keyPath: at(".max_fee_per_gas_gwei"),
    message: /an amount of gwei above 0 as a string, with at most 9 decimal places/,
  },
]);
