import { type Address, address } from "@solana/kit";
import { x402Client } from "@x402/core/client";
import { encodePaymentSignatureHeader } from "@x402/core/http";
import type { Network, PaymentPayload, PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { readKey } from "../../../src/parts/solana/key.ts";
import { toBase58 } from "../../../src/parts/solana/portable/addresses.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import type { Jobgate } from "../../helpers/jobgate-process.ts";
import { type JobHandler, type Runner, startRunner } from "../../helpers/runner.ts";
import {
  SOLANA_NETWORK,
  type SolanaCluster,
  solanaAccount,
  solanaKeyBytes,
  startSolanaCluster,
} from "../../helpers/solana-cluster.ts";
import { type SolanaFacilitator, startSolanaFacilitator } from "../../helpers/solana-facilitator.ts";
import { until } from "../../helpers/until.ts";

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
export const tokenTable = ({ cluster, seller }: SolanaParts, commitment?: "finalized") => `
[[x402.accepted_tokens]]
network = "solana-devnet"
token = "USDC"
pay_to = "${seller}"
rpc_url = "${cluster.rpcUrl}"
${commitment === undefined ? "" : `commitment = "${commitment}"`}
`;

interface ShopOptions {
  /** URL of a facilitator that is asked after the shop's own. */
  readonly nextFacilitator?: string;
  readonly more?: string;
  /** Default: that of the configuration. */
  readonly commitment?: "finalized";
  /** Default: jobs have no result. */
  readonly handle?: JobHandler;
  /** Default: in this process. */
  readonly start?: (options: { readonly config: string }) => Promise<Jobgate>;
}

export interface Answer {
  readonly status: number;
  readonly code?: string;
  readonly charged?: unknown;
  readonly call_id?: number;
  readonly access_token?: string;
}

/** A jobgate that sells two jobs for a token on Solana, with the official facilitator and a runner. */
export interface SolanaShop {
  readonly jobgate: Jobgate;
  readonly runner: Runner;
  readonly facilitator: SolanaFacilitator;
  /** Asks for the offers of a job. */
  offers(job?: number): Promise<PaymentRequired>;
  /** Has the official client sign for a fresh offer of a job. */
  sign(
    change?: (offer: PaymentRequirements) => PaymentRequirements,
    payer?: number,
    job?: number,
  ): Promise<PaymentPayload>;
  send(payment: PaymentPayload, request?: { readonly job?: number; readonly body?: string }): Promise<Answer>;
  /** Stops the facilitator and starts another one at its address. */
  restartFacilitator(): Promise<void>;
  stop(): Promise<void>;
}

/** Has the official client sign for offers that are on Solana, the first of them. */
export async function signOffers(
  { rpcUrl }: Pick<SolanaCluster, "rpcUrl">,
  required: PaymentRequired,
  change: (offer: PaymentRequirements) => PaymentRequirements = (offer) => offer,
  payer = 2,
): Promise<PaymentPayload> {
  const scheme = new ExactSvmScheme(await solanaAccount(payer), { rpcUrl });
  const client = new x402Client().register(SOLANA_NETWORK as Network, scheme);
  const offers = required.accepts.filter(({ network }) => network === SOLANA_NETWORK);
  const payment = await client.createPaymentPayload({ ...required, accepts: offers.map(change) });
  return { ...payment, accepted: offers[0] as PaymentRequirements };
}

/** Changes bytes of a payment's transaction, and has its payer sign again. */
export async function changed(
  payment: PaymentPayload,
  change: (bytes: Buffer) => void,
): Promise<PaymentPayload> {
  const bytes = Buffer.from(payment.payload.transaction as string, "base64");
  change(bytes);
  const payer = readKey(toBase58(await solanaKeyBytes(2)));
  bytes.set(payer?.sign(bytes.subarray(1 + 2 * 64)) ?? [], 1 + 64);
  return { ...payment, payload: { transaction: bytes.toString("base64") } };
}

/** @param more goes at the end of the configuration */
export async function startSolanaShop(
  parts: SolanaParts,
  { more = "", commitment, nextFacilitator, handle, start = startEmbeddedJobgate }: ShopOptions = {},
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
${tokenTable(parts, commitment)}
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
  const runner = await startRunner({ address: jobgate.runnerAddress, ...(handle && { handle }) });
  const urlOf = (job: number) => `${jobgate.x402Url}/x402/jobs/1/${job}`;
  const shop: SolanaShop = {
    jobgate,
    runner,
    get facilitator() {
      return facilitator;
    },
    offers: (job = 0) => offersAt(urlOf(job)),
    async sign(change, payer, job = 0) {
      return signOffers(cluster, await shop.offers(job), change, payer);
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
  // Until the facilitator has said who pays for transactions, the shop asks for none.
  await until(() => sellsOnSolana(urlOf(0)), { details: () => jobgate.logs.join("\n") });
  return shop;
}

async function offersAt(url: string): Promise<PaymentRequired> {
  const response = await fetch(url, { method: "POST", body: "one" });
  const header = response.headers.get("payment-required");
  if (header === null) throw new Error(`no offers: ${response.status} ${await response.text()}`);
  return JSON.parse(Buffer.from(header, "base64").toString());
}

/** Returns true once a job has an offer on Solana. */
async function sellsOnSolana(url: string): Promise<boolean> {
  const { accepts } = await offersAt(url).catch(() => ({ accepts: [] }));
  return accepts.some(({ network }) => network === SOLANA_NETWORK);
}
