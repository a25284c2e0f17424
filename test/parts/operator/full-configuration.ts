import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getBase58Decoder } from "@solana/kit";
import type { Config } from "../../../src/config/config.ts";
import { mistakeText } from "../../../src/config/mistakes.ts";
import { loadConfig } from "../../../src/load-config.ts";
import { makeCertificates } from "../../helpers/certificates.ts";
import { KEYSTORES } from "../../helpers/keystores.ts";

const ADDRESS = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const { file: keystore, password } = KEYSTORES.pbkdf2;

/** Beginning of every secret that has no form of its own. */
export const SECRET = "sEcReT";
let count = 0;
const secret = (): string => `${SECRET}-${++count}-longer-than-words-of-paths`;
/** A URL with a secret in every part that can hold one. */
const secretUrl = (user = `${secret()}:${secret()}@`): string =>
  `https://${user}host.example:444/v3/${secret()}?apikey=${secret()}#${secret()}`;
const signingKey = (letter: string) => `whsec_${Buffer.from(letter.repeat(32)).toString("base64")}`;

/** Secrets that have a form of their own. */
export const KEYS = {
  settler: "5e".repeat(32),
  refunds: "6f".repeat(32),
  /** Account of test 2 in RFC 8032, section 7.1, as programs of Solana write its key. */
  refundsOnSolana: getBase58Decoder().decode(
    Buffer.from(
      "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
      "hex",
    ),
  ),
  channels: "7a".repeat(32),
  /** Account of test 1 in RFC 8032, section 7.1, as programs of Solana write its key. */
  feePayer: getBase58Decoder().decode(
    Buffer.from(
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
      "hex",
    ),
  ),
  mpp: "0123456789abcdef00112233445566778899aabbccddeeff0123456789abcdea",
  push: signingKey("p"),
  callback: signingKey("c"),
  svix: signingKey("s"),
  /** The private key of test 1 in RFC 8032, section 7.1. */
  callbacks: "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=",
  password,
  keystore: KEYSTORES.pbkdf2.privateKey.slice(2),
};

const TOML = `service_id = "18446744073709551615"
callback_key = "env:CALLBACK_KEY"

[store]
url = "postgres://${secret()}@a.example:5432,b.example/jobgate?application_name=${secret()}&target_session_attrs=read-write"
max_pending = 1_000
max_results_bytes = 1_000_000_000_000
pool_size = 20
connect_timeout_secs = 2.5
tls = "require"
ca = "$DIR/authority.pem"
password_file = "$DIR/server.key"
listen = false
retention = { payments_days = 0.5, dead_letters_days = 7 }

[runner]
bind_address = "unix:/run/jobgate/runner.sock"
token = "file:token"
retry_base_secs = 1.5
[runner.tls]
cert = "$DIR/server.pem"
key = "$DIR/server.key"
client_ca = "$DIR/authority.pem"

[operator]
bind_address = "[::1]:8405"
token = ["env:OPERATOR_TOKEN", "${secret()}"]
show_bodies = true

[[apis]]
name = "weather"
url = "http://127.0.0.1:8000/v1"
headers = { X-Api-Key = "env:CALLBACK_SECRET" }
free = ["GET /docs/{path...}"]
health = "GET /health"
[[apis.access]]
api_keys = "ada ${"ab".repeat(32)}"
[[apis.access]]
sign_in = ["0x${"1".repeat(40)}"]
rate = 3
[[push]]
url = "${secretUrl()}"
job_ids = [3]
concurrency = 4
timeout_secs = 1.5
secret = ["${KEYS.push}", "env:CALLBACK_SECRET"]

[[callbacks]]
url = "${secretUrl("")}"
events = ["dead_letter"]
secret = "env:CALLBACK_SECRET"
[[callbacks]]
url = "https://host.example/"
events = ["payment.settled"]

[pricing_engine]
url = "${secretUrl("").replace(/\?.*/, "")}"
chain_id = 1
verifying_contract = "${ADDRESS}"
operator_address = "${ADDRESS}"

[a2a]
enabled = true

[mcp]
enabled = true
allowed_origins = ["https://agent.example"]

[x402]
bind_address = "127.0.0.1:8402"
public_url = "https://host.example/jobgate/"
service_name = "Shop"
title = "The shop"
contact = "ada@shop.example"
logo = "https://shop.example/logo.png"
theme_color = "#0a7d5a"
terms_of_service = "https://shop.example/terms"
guidance = "Ask for one text at a time."
default_invocation_mode = "public_paid"
forward_headers = ["X-All"]
trusted_proxies = ["10.0.0.0/8"]
cors_origins = ["https://shop.example"]
rate_per_native_unit = "3200"
markup_bps = 200
receipts.signer.private_key = "${KEYS.settler}"
callbacks = { ports = [443, 8443], allowed_addresses = ["10.0.0.0/8"] }
mpp = { realm = "pay.example", secret_key = "${KEYS.mpp}", challenge_ttl_secs = 120 }
[x402.refunds]
signer = { private_key = "0x${KEYS.refunds}" }
accounts = { solana-devnet = "${KEYS.refundsOnSolana}" }
max_fee_per_gas_gwei = "1.5"
min_balance = "0.01"
[x402.channels]
authorizer = { private_key = "0x${KEYS.channels}" }
withdraw_delay_secs = 43_200
min_deposit = 20
claim_at = "$2.50"
min_claim = "$0.05"
claim_every_secs = 600
[x402.facilitator_service]
bind_address = "127.0.0.1:8406"
tokens = ["${secret()}", { name = "shop", token = "${secret()}" }]

[[x402.facilitators]]
url = "${secretUrl().replace(/\?.*/, "")}"
auth.headers = { X-Api-Key = "${secret()}", X-Name = "env:OPERATOR_TOKEN" }
[[x402.facilitators]]
url = "https://cdp.example/platform/v2/x402"
auth.cdp = { key_id = "${secret()}", key_secret = "env:CDP_SECRET" }
networks = ["base"]
[[x402.facilitators]]
local = true
signer = [{ private_key = "${KEYS.settler}" }, { keystore = "keystore.json", password = "${KEYS.password}" }]
rpc_urls = { base-sepolia = "${secretUrl()}", solana-devnet = "${secretUrl()}" }
fee_payers = { solana-devnet = "${KEYS.feePayer}" }
max_fee_per_gas_gwei = "2.5"

[[x402.accepted_tokens]]
token = "USDC"
network = "base-sepolia"
pay_to = "${ADDRESS}"
rpc_url = "${secretUrl()}"
confirmations = 3
[[x402.accepted_tokens]]
network = "eip155:84532"
asset = "${ADDRESS}"
symbol = "USDC"
decimals = 6
transfer_method = "permit2"
pay_to = "${ADDRESS}"
rpc_url = "env:RPC_URL"
jobs = ["summarise"]
markup_bps = 0
rate_source.chainlink = { rpc_url = "${secretUrl()}", feed = "${ADDRESS}", max_age_secs = 60, refresh_secs = 0.5 }
[[x402.accepted_tokens]]
token = "USDC"
network = "base"
pay_to = "${ADDRESS}"
rpc_url = "env:RPC_URL"
rate_source.http = { url = "${secretUrl()}", pointer = "/rates/ETH", max_age_secs = 60 }

[[x402.job_policies]]
service_id = 1
job_index = 4
invocation_mode = "restricted_paid"
auth_mode = "payer_is_caller"
chain_rpc_url = "${secretUrl()}"
chain_contract = "${ADDRESS}"
permission_cache_secs = 30

[[jobs]]
service_id = 1
job_index = 4
name = "summarise"
title = "Summarise"
description = "Summarises."
tags = ["text"]
price = "$0.01"
require_payment_identifier = true
charge = ["before", "used"]
min_charge = "10.5%"
on_failure = "ask"
input = { content_type = "application/json", schema = "schema.json", example = "example.json" }
output = { content_type = "application/json", schema = "schema.json", example = "example.json" }
max_run_secs = 90
max_result_bytes = 2097152
store_answers = false
forward_headers = ["x-own"]
[[jobs]]
job_index = 5
price = "engine"
concurrency = 4
rate = "100/m"
[[jobs]]
job_index = 6
price = { base = "$0.002", per = "body:KiB", each = "$0.0000001", min = "$0.01", max = "$1" }
[[jobs]]
job_index = 7
price = { per = "json:/text:characters", tiers = [{ up_to = 1000, price = "$0.01" }, { price = "$0.05" }] }
[[jobs]]
job_index = 8
price = { of = "header:x-units", cases = { kelvin = "$0.02" }, other = "$0.01" }

[job_pricing.1]
9 = "1000000000000000"

[webhooks]
bind_address = "127.0.0.1:9090"
max_body_bytes = 2048
trusted_proxies = ["2001:db8::1"]
[[webhooks.endpoints]]
path = "/hooks/a"
job_id = 1
[[webhooks.endpoints]]
path = "/hooks/b"
job_id = 2
auth = "bearer"
secret = "${secret()}"
[[webhooks.endpoints]]
path = "/hooks/c"
job_id = 3
auth = "github"
secrets = ["env:OPERATOR_TOKEN", "${secret()}"]
dedupe = false
[[webhooks.endpoints]]
path = "/hooks/d"
job_id = 4
name = "Alerts"
auth = "api-key"
secrets = [{ name = "new", secret = "env:OPERATOR_TOKEN" }, { name = "old", secret = "${secret()}" }]
[[webhooks.endpoints]]
path = "/hooks/e"
job_id = 5
auth = "svix"
secrets = [{ name = "new", secret = "${KEYS.svix}" }]
dedupe = { header = "X-Id", window_secs = 60 }
challenge = { parameter = "challenge", token_parameter = "token", token = "${secret()}" }
rate_limit_per_second = 50
allow_cidrs = ["10.0.0.0/8"]
forward_headers = ["X-Event"]
order_by = "json:/data/customer"
on_dead = "hold"
concurrency = 4
rate = "100/m"
`;

/** Loads a configuration with every table, and with a secret wherever one can be. */
export async function loadFullConfiguration(): Promise<{
  config: Config;
  /** Folders of the files that keys name. */
  folders: readonly string[];
}> {
  const certificates = await makeCertificates({ server: {} });
  const folder = await mkdtemp(join(tmpdir(), "jobgate-full-"));
  const files = {
    "jobgate.toml": TOML.replaceAll("$DIR/", `${certificates.file("")}/`),
    "keystore.json": keystore,
    "schema.json": "{}",
    "example.json": "{}",
    token: secret(),
  };
  try {
    for (const [name, text] of Object.entries(files))
      await writeFile(join(folder, name), text, { mode: 0o600 });
    const env = {
      CALLBACK_KEY: KEYS.callbacks,
      CALLBACK_SECRET: KEYS.callback,
      OPERATOR_TOKEN: secret(),
      RPC_URL: secretUrl(),
      CDP_SECRET: String(
        generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({
          format: "pem",
          type: "pkcs8",
        }),
      ),
    };
    const result = await loadConfig({ path: join(folder, "jobgate.toml"), env });
    if (!result.ok) throw new Error(result.mistakes.map(mistakeText).join("\n"));
    return { config: result.config, folders: [folder, certificates.file("")] };
  } finally {
    await rm(folder, { recursive: true });
    await certificates.stop();
  }
}
