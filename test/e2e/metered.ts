import { expect } from "vitest";
import { Fail } from "../../src/runner/job.ts";
import { accounts, newAccount, type TestAccount } from "../helpers/accounts.ts";
import { type Offer, type Permit2Payment, requestOffer, signMeteredPayment } from "../helpers/clients.ts";
import { approvePermit2, installPermit2 } from "../helpers/permit2.ts";
import { until } from "../helpers/until.ts";
import { withPermit2 } from "./paid-config.ts";
import { type Answer, type PaidGateway, type PaidGatewayOptions, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT, type PaidParts, startPaidParts } from "./paid-parts.ts";

/** Parts of metered payments: a chain with Permit2, approved payers, and a facilitator that settles them. */
export async function startMeteredParts(): Promise<PaidParts> {
  const parts = await startPaidParts({ meteredSettler: true });
  const { anvil, usdc } = parts;
  await installPermit2(anvil);
  for (const account of [accounts.payer, accounts.otherPayer])
    await approvePermit2({ anvil, token: usdc.address, account });
  return parts;
}

/** Returns a payer with the price of so many jobs, who has approved Permit2. */
export async function newPayer({ anvil, usdc }: PaidParts, jobs = 1n): Promise<TestAccount> {
  const account = newAccount();
  const { address } = account;
  await anvil.client.setBalance({ address, value: 10n ** 18n });
  await anvil.client.impersonateAccount({ address });
  await usdc.mint(address, jobs * AMOUNT);
  await approvePermit2({ anvil, token: usdc.address, account });
  return account;
}

/**
 * Sells job 0 metered, and at its fixed price too. A body is what the runner charges, and a name: units, or "all", or "fail".
 */
export function startMeteredGateway(
  options: Pick<PaidGatewayOptions, "parts" | "setUp"> & Partial<PaidGatewayOptions>,
): Promise<PaidGateway> {
  const { edit = (config) => config } = options;
  return startPaidGateway({
    handle({ body }) {
      const text = Buffer.from(body).toString();
      if (text.startsWith("fail")) throw new Fail("no ink");
      const [charge = "all"] = text.split(" ");
      return {
        body: Buffer.from(`result of ${text}`),
        ...(charge === "all" ? {} : { charge: BigInt(charge) }),
      };
    },
    ...options,
    edit: (config) =>
      edit(`${withPermit2(config)}
[[jobs]]
job_index = 0
mode = "public_paid"
charge = ["used", "before"]
max_run_secs = 120
`),
  });
}

/** Waits until the facilitator has said which address it settles metered with. */
export async function offerMetered(
  gateway: Pick<PaidGateway, "urlOf">,
  { body, headers, job }: { body?: string; headers?: Readonly<Record<string, string>>; job?: number } = {},
): Promise<Offer["v2"]> {
  const ask = async () => (await requestOffer(gateway.urlOf(job), body, headers)).v2;
  await expect
    .poll(async () => (await ask()).accepts.map(({ scheme }) => scheme), { interval: 20 })
    .toContain("upto");
  return ask();
}

export async function authorize(
  gateway: Pick<PaidGateway, "urlOf">,
  { account = accounts.payer, secs, job = 0 }: { account?: TestAccount; secs?: number; job?: number } = {},
): Promise<Permit2Payment> {
  const offer = await offerMetered(gateway, { job });
  return signMeteredPayment({ offer, account, ...(secs === undefined ? {} : { secs }) });
}

interface CallAnswer {
  readonly state: string;
  readonly reason?: string;
  readonly charge: { readonly state: string; readonly amount?: string; readonly transaction?: string };
}

/** Asks for a call as its buyer. */
export async function askForCall(
  gateway: PaidGateway,
  bought: Pick<Answer, "call_id" | "access_token">,
): Promise<CallAnswer & { readonly result: { readonly status: number; readonly text: string } }> {
  const url = `${gateway.jobgate.x402Url}/x402/calls/${bought.call_id}`;
  const headers = { authorization: `Bearer ${bought.access_token}` };
  const response = await fetch(`${url}/result`, { headers });
  const result = { status: response.status, text: await response.text() };
  return { ...((await (await fetch(url, { headers })).json()) as CallAnswer), result };
}

/** Asks for a call as its buyer, until its charge is decided. */
export async function decided(
  gateway: PaidGateway,
  bought: Pick<Answer, "call_id" | "access_token">,
): ReturnType<typeof askForCall> {
  await until(async () => /settled|released|failed/.test((await askForCall(gateway, bought)).charge.state));
  return askForCall(gateway, bought);
}
