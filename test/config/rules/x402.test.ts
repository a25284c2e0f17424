import { TOKEN, X402 } from "../config-folder.ts";
import { header, POLICY, policy, testMistakes, token, without, x402 } from "../mistake-cases.ts";

const JOBS = `[[jobs]]
job_index = 0
name = "a"
price = "$1"
mode = "public_paid"
[[jobs]]
job_index = 1
name = "b"
price_wei = "1000000000000000"
mode = "public_paid"
`;

testMistakes([
  {
    promise: "A facilitator over http beyond loopback is a mistake",
    ...x402("facilitator_url", '"http://10.0.0.1"'),
    toml: `[x402]\npublic_url = "https://a.example"\nfacilitator_url = "http://10.0.0.1" #!\n${TOKEN}`,
    message: /expected https:/,
  },
  {
    promise: "A facilitator URL with credentials in the clear is a mistake",
    ...x402("facilitator_url", ""),
    toml: `[x402]\npublic_url = "https://a.example"\nfacilitator_url = "http://user:hunter2@fac.example" #!\n${TOKEN}`,
    message: /credentials in the clear/,
  },
  {
    promise: "A public URL with a query is a mistake",
    toml: `[x402]\nfacilitator_url = "https://a.example"\npublic_url = "https://a.example/?x=1" #!\n${TOKEN}`,
    keyPath: "x402.public_url",
    message: /without query/,
  },
  {
    promise: "A public URL that is not absolute is a mistake",
    toml: `[x402]\nfacilitator_url = "https://a.example"\npublic_url = "a.example" #!\n${TOKEN}`,
    keyPath: "x402.public_url",
    message: /an absolute http/,
    suggestion: "https://a.example",
  },
  {
    promise: "A web page's origin with a path is a mistake",
    toml: `${X402}cors_origins = [\n"https://shop.example",\n"https://shop.example/buy" #!\n]\n${TOKEN}`,
    keyPath: "x402.cors_origins[1]",
    message: /an origin, such as/,
  },
  {
    promise: "restricted_paid cannot be the default",
    ...x402("default_invocation_mode", '"restricted_paid"'),
    message: /"disabled" or "public_paid" \(restricted_paid needs a policy/,
  },
  {
    promise: "A gateway without any token is a mistake",
    toml: `${X402}accepted_tokens = [] #!`,
    keyPath: "x402.accepted_tokens",
    message: /is empty; expected an array of tables, one for each token/,
  },
  {
    promise: "An address whose private key is public is a mistake where its money is worth something",
    toml: `${X402}[[x402.accepted_tokens]]\ntoken = "USDC"\nnetwork = "base"\npay_to = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8" #!\n`,
    keyPath: "x402.accepted_tokens[0].pay_to",
    message: /private key is public: anyone could take what it is paid on base; expected your own address$/,
  },
  {
    promise: "A network of a kind that no part of the build has is a mistake",
    ...token("network", '"cosmos:cosmoshub-4"'),
    message: /CAIP-2 EVM network/,
  },
  {
    promise: "A chain id with a leading zero is a mistake",
    ...token("network", '"eip155:01"'),
    message: /CAIP-2 EVM network/,
  },
  {
    promise: "A wrong checksum is a mistake",
    ...token("asset", '"0x036Cbd53842c5426634e7929541eC2318f3dCF7e"'),
    message: /wrong checksum/,
  },
  { promise: "A short address is a mistake", ...token("pay_to", '"0x036Cbd"'), message: /40 hex digits/ },
  {
    promise: "The zero address is a mistake",
    ...token("pay_to", '"0x0000000000000000000000000000000000000000"'),
    message: /zero address/,
  },
  {
    promise: "Decimals above 36 are a mistake",
    ...token("decimals", "37"),
    message: /is 37; expected an integer from 0 to 36/,
  },
  {
    promise: "A rate of zero is a mistake",
    ...token("rate_per_native_unit", '"0.00"'),
    message: /decimal number above 0/,
  },
  {
    promise: "A rate that is not a string is a mistake",
    ...token("rate_per_native_unit", "3200.5"),
    message: /is 3200.5; expected a decimal number above 0 as a string/,
    suggestion: "3200.5",
  },
  {
    promise: "A markup above 65535 is a mistake",
    toml: `${X402}${TOKEN}markup_bps = 65536 #!`,
    keyPath: "x402.accepted_tokens[0].markup_bps",
    message: /65535/,
  },
  {
    promise: "A token without a rate anywhere is a mistake",
    toml: header(`${X402}${without(TOKEN, "rate_per_native_unit")}`, "[[x402.accepted_tokens]]"),
    keyPath: "x402.accepted_tokens[0].rate_per_native_unit",
    message: /here or as x402.rate_per_native_unit/,
  },
  {
    promise: "EIP-3009 without the token's name is a mistake",
    toml: header(`${X402}${without(TOKEN, "eip3009_name")}`, "[[x402.accepted_tokens]]"),
    keyPath: "x402.accepted_tokens[0].eip3009_name",
    message: /EIP-712/,
  },
  {
    promise: "EIP-3009 without the token's version is a mistake",
    toml: header(`${X402}${without(TOKEN, "eip3009_version")}`, "[[x402.accepted_tokens]]"),
    keyPath: "x402.accepted_tokens[0].eip3009_version",
    message: /EIP-712/,
  },
  {
    promise: "The same token twice is a mistake",
    toml: `${X402}${TOKEN}${header(TOKEN, "[[x402.accepted_tokens]]")}`,
    keyPath: "x402.accepted_tokens[1]",
    message: /same token as x402.accepted_tokens\[0\]/,
  },
  {
    promise: "The same token twice for one job is a mistake",
    toml: `${X402}${TOKEN}jobs = ["a"]\n${header(TOKEN, "[[x402.accepted_tokens]]")}jobs = ["b", "a"]\n${JOBS}`,
    keyPath: "x402.accepted_tokens[1]",
    message: /same token as x402.accepted_tokens\[0\]; expected each once for the job "a"/,
  },
  {
    promise: "A token for a job that has no such name is a mistake",
    toml: `${X402}${TOKEN}jobs = ["a", "bb"] #!\n${JOBS}`,
    keyPath: "x402.accepted_tokens[0].jobs[1]",
    message: /is "bb", which no job has as its name; expected "b"/,
  },
  {
    promise: "A token for no job is a mistake",
    toml: `${X402}${TOKEN}jobs = [] #!\n${JOBS}`,
    keyPath: "x402.accepted_tokens[0].jobs",
    message: /expected an array of names of jobs/,
  },
  {
    promise: "Confirmation without an RPC is a mistake",
    toml: header(`${X402}${TOKEN}require_onchain_confirmation = true`, "[[x402.accepted_tokens]]"),
    keyPath: "x402.accepted_tokens[0].rpc_url",
    message: /require_onchain_confirmation is true/,
  },
  {
    promise: "Zero confirmations are a mistake",
    toml: `${X402}${TOKEN}confirmations = 0 #!`,
    keyPath: "x402.accepted_tokens[0].confirmations",
    message: /from 1/,
  },
  {
    promise: "A token RPC with credentials in the clear is a mistake",
    toml: `${X402}${TOKEN}rpc_url = "http://user:hunter2@rpc.example" #!`,
    keyPath: "x402.accepted_tokens[0].rpc_url",
    message: /credentials in the clear/,
  },
  {
    promise: "A restricted policy needs an auth mode",
    toml: header(`${X402}${TOKEN}${without(POLICY, "auth_mode")}`, "[[x402.job_policies]]"),
    keyPath: "x402.job_policies[0].auth_mode",
    message: /"payer_is_caller" or "delegated_caller_signature"/,
  },
  {
    promise: "A restricted policy needs an RPC",
    toml: header(`${X402}${TOKEN}${without(POLICY, "chain_rpc_url")}`, "[[x402.job_policies]]"),
    keyPath: "x402.job_policies[0].chain_rpc_url",
    message: /is missing/,
  },
  {
    promise: "A restricted policy needs a contract",
    toml: header(`${X402}${TOKEN}${without(POLICY, "chain_contract")}`, "[[x402.job_policies]]"),
    keyPath: "x402.job_policies[0].chain_contract",
    message: /is missing/,
  },
  {
    promise: "Two policies for one job are a mistake",
    toml: `${X402}${TOKEN}${POLICY}${header(POLICY, "[[x402.job_policies]]")}`,
    keyPath: "x402.job_policies[1]",
    message: /same job as x402.job_policies\[0\]/,
  },
  {
    promise: "A key and its alias at once are a mistake",
    toml: `${X402}${TOKEN}${POLICY}tangle_rpc_url = "http://127.0.0.1:1" #!`,
    keyPath: "x402.job_policies[0].tangle_rpc_url",
    message: /another name of chain_rpc_url/,
  },
  {
    promise: "A contract and its alias at once are a mistake",
    toml: `${X402}${TOKEN}${POLICY}tangle_contract = "0x0165878A594ca255338adfa4d48449f69242Eb8F" #!`,
    keyPath: "x402.job_policies[0].tangle_contract",
    message: /another name of chain_contract/,
  },
  {
    promise: "A policy RPC with an API key in the clear is a mistake",
    ...policy("chain_rpc_url", '"http://rpc.example/?apikey=hunter2"'),
    message: /credentials in the clear/,
  },
  {
    promise: "A job index above u32 is a mistake",
    ...policy("job_index", "4294967296"),
    message: /4294967295/,
  },
  {
    promise: "An unknown mode is a mistake",
    ...policy("invocation_mode", '"paid"'),
    message: /"disabled", "public_paid" or "restricted_paid"/,
  },
]);
