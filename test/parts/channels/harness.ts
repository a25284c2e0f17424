import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from "@x402/core/http";
import type { PaymentRequired, SettleResponse } from "@x402/core/types";
import { accounts, newAccount, type TestAccount } from "../../helpers/accounts.ts";
import { type Anvil, borrowAnvil } from "../../helpers/anvil.ts";
import { installChannels } from "../../helpers/channels.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { type Facilitator, startFacilitator } from "../../helpers/facilitator.ts";
import type { Jobgate } from "../../helpers/jobgate-process.ts";
import { approvePermit2, deployPlainToken, installPermit2 } from "../../helpers/permit2.ts";
import { type JobHandler, type Runner, startRunner } from "../../helpers/runner.ts";
import { until } from "../../helpers/until.ts";
import { deployUsdc, type Token } from "../../helpers/usdc.ts";

/** Price of every job, token units. */
export const PRICE = 1_000n;
/** Deposit that the offers ask for. */
export const DEPOSIT = 10n * PRICE;

export interface ChannelParts {
  readonly anvil: Anvil;
  readonly usdc: Token;
  stop(): Promise<void>;
}

/** Starts a chain with the contracts for channels, and a token. */
export async function startChannelParts(): Promise<ChannelParts> {
  const anvil = await borrowAnvil();
  const usdc = await deployUsdc({ anvil });
  await installChannels(anvil);
  return { anvil, usdc, stop: () => anvil.stop() };
}

/** Starts a chain with the contracts for channels, Permit2, and a token that has no EIP-3009. */
export async function startPermit2Parts(): Promise<ChannelParts> {
  const { anvil, stop } = await startChannelParts();
  await installPermit2(anvil);
  return { anvil, usdc: (await deployPlainToken(anvil)) as Token, stop };
}

/** Configures a token that has no EIP-3009, and no names either. */
export const withPermit2 = (config: string) =>
  config.replace('"eip3009"', '"permit2"').replace(/^eip3009_(name|version) = .*\n/gm, "");

/** Makes an account that has the token and gas, and has approved Permit2. */
export async function newPermit2Payer(parts: ChannelParts): Promise<TestAccount> {
  const { anvil, usdc } = parts;
  const payer = await newPayer(parts);
  await anvil.client.impersonateAccount({ address: payer.address });
  await approvePermit2({ anvil, token: usdc.address, account: payer });
  return payer;
}

/** Makes an account that has the token and gas. */
export async function newPayer({ anvil, usdc }: ChannelParts): Promise<TestAccount> {
  const payer = newAccount();
  await usdc.mint(payer.address, 1_000_000n);
  await anvil.client.setBalance({ address: payer.address, value: 10n ** 18n });
  return payer;
}

export interface ChannelShop {
  readonly jobgate: Jobgate;
  readonly runner: Runner;
  readonly facilitator: Facilitator;
  readonly authorizer: TestAccount;
  /** Receives what is claimed. */
  readonly payTo: TestAccount;
  urlOf(job: number): string;
  /** Buys a job with a client's `fetch`. */
  buy(fetch: typeof globalThis.fetch, body: string, job?: number): Promise<Bought>;
  /** Asks for the offers of a job. */
  offers(job?: number): Promise<PaymentRequired>;
  stop(): Promise<void>;
}

export interface Bought {
  readonly status: number;
  readonly callId: number | undefined;
  readonly settlement: SettleResponse | undefined;
  /** Offers of a 402. */
  readonly accepts: PaymentRequired["accepts"];
  /** Error in the offer of a 402. */
  readonly error: string | undefined;
  /** Code of a refusal. */
  readonly code: string | undefined;
}

/** Job that is charged back if it fails, and job that is not. */
export const RETURNED = 0;
export const KEPT = 1;

/** The configuration of a shop that sells two jobs. */
function channelsConfig(
  { anvil, usdc }: ChannelParts,
  of: {
    readonly facilitatorUrl: string;
    readonly authorizer: TestAccount;
    readonly payTo: TestAccount;
    /** Keys of `[x402.channels]`. */
    readonly keys?: string;
    /** Further jobs. */
    readonly jobs?: string;
    readonly store?: string;
  },
): string {
  return `
service_id = 1
[store]
url = "${of.store ?? "sqlite:jobgate.db"}"
[runner]
lease_secs = 2
bind_address = "127.0.0.1:0"
[operator]
bind_address = "127.0.0.1:0"
[x402]
bind_address = "127.0.0.1:0"
public_url = "http://127.0.0.1:8402"
facilitator_url = "${of.facilitatorUrl}"
[x402.channels]
authorizer = { private_key = "${of.authorizer.privateKey}" }
${of.keys ?? "claim_every_secs = 1"}
[x402.refunds]
signer = { private_key = "${accounts.stranger.privateKey}" }
[[x402.accepted_tokens]]
network = "eip155:${anvil.chainId}"
asset = "${usdc.address}"
symbol = "USDC"
decimals = 6
currency = "USD"
pay_to = "${of.payTo.address}"
transfer_method = "eip3009"
eip3009_name = "${usdc.name}"
eip3009_version = "${usdc.version}"
rpc_url = "${anvil.rpcUrl}"
${[RETURNED, KEPT]
  .map(
    (job) => `
[[jobs]]
job_index = ${job}
mode = "public_paid"
price = "$0.001"
on_failure = "${job === RETURNED ? "refund" : "keep"}"`,
  )
  .join("")}
${of.jobs ?? ""}
`;
}

export async function startChannelShop(
  parts: ChannelParts,
  options: {
    readonly keys?: string;
    readonly jobs?: string;
    readonly handle?: JobHandler;
    /** Changes the configuration. */
    readonly edit?: (config: string) => string;
    /** Puts something between jobgate and its facilitator. Default: nothing. */
    readonly through?: (facilitatorUrl: string) => Promise<{ readonly url: string; stop(): Promise<void> }>;
    /** Default: payers have approved Permit2 before. */
    readonly sponsorsGas?: boolean;
    /** Default: in this process. */
    readonly start?: (options: { readonly config: string }) => Promise<Jobgate>;
  } = {},
): Promise<ChannelShop> {
  const { start = startEmbeddedJobgate, handle, keys, jobs, through, edit = (config) => config } = options;
  const { sponsorsGas = false } = options;
  const facilitator = await startFacilitator({ anvil: parts.anvil, settlesChannels: true, sponsorsGas });
  const between = await through?.(facilitator.url);
  const [authorizer, payTo] = [newAccount(), newAccount()];
  const config = channelsConfig(parts, {
    facilitatorUrl: between?.url ?? facilitator.url,
    ...{ authorizer, payTo },
    ...(keys !== undefined && { keys }),
    ...(jobs !== undefined && { jobs }),
  });
  const jobgate = await start({ config: edit(config) });
  const runner = await startRunner({ address: jobgate.runnerAddress, ...(handle && { handle }) });
  const urlOf = (job: number) => `${jobgate.x402Url}/x402/jobs/1/${job}`;
  await untilOffered(urlOf(RETURNED));
  return {
    ...{ jobgate, runner, facilitator, authorizer, payTo, urlOf },
    buy: async (fetch, body, job = RETURNED) => readBought(await fetch(urlOf(job), { method: "POST", body })),
    offers: (job = RETURNED) => offersAt(urlOf(job)),
    async stop() {
      await runner.stop();
      await jobgate.stop();
      await between?.stop();
      await facilitator.stop();
    },
  };
}

async function offersAt(url: string): Promise<PaymentRequired> {
  const response = await fetch(url, { method: "POST", body: "" });
  return decodePaymentRequiredHeader(response.headers.get("payment-required") ?? "");
}

/** Waits until a job can be bought from a channel: a shop that was started first asks its facilitator. */
export async function untilOffered(url: string): Promise<void> {
  const none = { accepts: [] };
  const offers = () => offersAt(url).catch((): Pick<PaymentRequired, "accepts"> => none);
  await until(async () => (await offers()).accepts.some(({ scheme }) => scheme === "batch-settlement"));
}

export async function readBought(response: Response): Promise<Bought> {
  const settlement = response.headers.get("payment-response");
  const required = response.headers.get("payment-required");
  const body = (await response.json().catch(() => ({}))) as {
    readonly call_id?: number;
    readonly code?: string;
  };
  return {
    status: response.status,
    callId: body.call_id,
    code: body.code,
    settlement: settlement === null ? undefined : decodePaymentResponseHeader(settlement),
    ...(required === null ? { accepts: [], error: undefined } : errorOf(required)),
  };
}

function errorOf(required: string): Pick<Bought, "accepts" | "error"> {
  const { accepts, error } = decodePaymentRequiredHeader(required);
  return { accepts, error };
}

/** Returns the channel that a settlement is of. */
export function channelOf({ settlement }: Bought): string {
  const { extra } = settlement ?? {};
  return (extra as { readonly channelState: { readonly channelId: string } }).channelState.channelId;
}
