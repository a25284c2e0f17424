import { type Address, address } from "@solana/kit";
import { x402Client } from "@x402/core/client";
import { encodePaymentSignatureHeader } from "@x402/core/http";
import type { Network, PaymentPayload, PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import type { Jobgate } from "../../helpers/jobgate-process.ts";
import { type Runner, startRunner } from "../../helpers/runner.ts";
import {
  SOLANA_NETWORK,
  type SolanaCluster,
  solanaAccount,
  startSolanaCluster,
} from "../../helpers/solana-cluster.ts";
import { type SolanaFacilitator, startSolanaFacilitator } from "../../helpers/solana-facilitator.ts";

/** Price of both jobs, token units. */
export const PRICE = 10_000n;
const FUNDS = 1_000_000n;
/** The dollar token of the devnet: the official client pays in no other one unasked. */
const USDC = address("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU");

export interface SolanaParts {
  readonly cluster: SolanaCluster;
  readonly mint: Address;
  readonly seller: Address;
  readonly payer: Address;
  stop(): Promise<void>;
}

/** Starts a cluster with a token that the account 2 has, and an empty account of the seller. */
export async function startSolanaParts(): Promise<SolanaParts> {
  const cluster = await startSolanaCluster();
  const [payer, seller] = (await Promise.all([solanaAccount(2), solanaAccount(3)])).map((one) => one.address);
  if (payer === undefined || seller === undefined) throw new Error("unreachable");
  const mint = await cluster.createMint({ at: USDC });
  await cluster.fund(payer, mint, FUNDS);
  await cluster.fund(seller, mint, 0n);
  return { cluster, mint, seller, payer, stop: cluster.stop };
}

/** The table of the token. */
const tokenTable = ({ cluster, seller }: SolanaParts) => `
[[x402.accepted_tokens]]
network = "solana-devnet"
token = "USDC"
pay_to = "${seller}"
rpc_url = "${cluster.rpcUrl}"
`;

interface ShopOptions {
  /** URL of a facilitator that is asked after the shop's own. */
  readonly nextFacilitator?: string;
  readonly more?: string;
  /** Default: in this process. */
  readonly start?: (options: { readonly config: string }) => Promise<Jobgate>;
}

export interface Answer {
  readonly status: number;
  readonly code?: string;
  readonly charged?: unknown;
  readonly call_id?: number;
}

/** A jobgate that sells two jobs for a token on Solana, with the official facilitator and a runner. */
export interface SolanaShop {
  readonly jobgate: Jobgate;
  readonly runner: Runner;
  readonly facilitator: SolanaFacilitator;
  /** Asks for the offers of a job. */
  offers(job?: number): Promise<PaymentRequired>;
  /** Has the official client sign for a fresh offer. */
  sign(change?: (offer: PaymentRequirements) => PaymentRequirements, payer?: number): Promise<PaymentPayload>;
  send(payment: PaymentPayload, request?: { readonly job?: number; readonly body?: string }): Promise<Answer>;
  /** Stops the facilitator and starts another one at its address. */
  restartFacilitator(): Promise<void>;
  stop(): Promise<void>;
}

/** @param more goes at the end of the configuration */
export async function startSolanaShop(
  parts: SolanaParts,
  { more = "", nextFacilitator, start = startEmbeddedJobgate }: ShopOptions = {},
): Promise<SolanaShop> {
  const { cluster } = parts;
  let facilitator = await startSolanaFacilitator(cluster);
  const jobgate = await start({
    config: `
service_id = 1
[store]
url = "sqlite:jobgate.db"
[runner]
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_timeout_secs = 5
${[facilitator.url, nextFacilitator].map((url) => (url ? `[[x402.facilitators]]\nurl = "${url}"\n` : "")).join("")}
${tokenTable(parts)}
[[jobs]]
job_index = 0
mode = "public_paid"
price = "$0.01"
[[jobs]]
job_index = 1
mode = "public_paid"
price = "$0.01"
${more}`,
  });
  const runner = await startRunner({ address: jobgate.runnerAddress });
  const urlOf = (job: number) => `${jobgate.x402Url}/x402/jobs/1/${job}`;
  const shop: SolanaShop = {
    jobgate,
    runner,
    get facilitator() {
      return facilitator;
    },
    async offers(job = 0) {
      const response = await fetch(urlOf(job), { method: "POST", body: "one" });
      const header = response.headers.get("payment-required");
      if (header === null) throw new Error(`no offers: ${response.status} ${await response.text()}`);
      return JSON.parse(Buffer.from(header, "base64").toString());
    },
    async sign(change = (offer) => offer, payer = 2) {
      const scheme = new ExactSvmScheme(await solanaAccount(payer), { rpcUrl: cluster.rpcUrl });
      const client = new x402Client().register(SOLANA_NETWORK as Network, scheme);
      const required = await shop.offers();
      const payment = await client.createPaymentPayload({
        ...required,
        accepts: required.accepts.map(change),
      });
      return { ...payment, accepted: required.accepts[0] as PaymentRequirements };
    },
    async send(payment, { job = 0, body = "one" } = {}) {
      const headers = { "payment-signature": encodePaymentSignatureHeader(payment) };
      const response = await fetch(urlOf(job), { method: "POST", headers, body });
      const answer = (await response.json()) as Answer;
      return { ...answer, status: response.status };
    },
    async restartFacilitator() {
      const { port } = facilitator;
      await facilitator.stop();
      facilitator = await startSolanaFacilitator({ ...cluster, port });
    },
    async stop() {
      await runner.stop();
      await jobgate.stop();
      await facilitator.stop();
    },
  };
  return shop;
}
