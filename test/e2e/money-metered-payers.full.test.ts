import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { FUNDS_MS } from "../../src/x402/settlement/charges.ts";
import { accounts, type TestAccount } from "../helpers/accounts.ts";
import { highS } from "../helpers/caller-claim.ts";
import { type Permit2Payment, signMeteredPayment, v2PaymentHeaders } from "../helpers/clients.ts";
import { approvePermit2, invalidatePermit2Nonce } from "../helpers/permit2.ts";
import { startPricingEngine } from "../helpers/pricing-engine.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startTangle } from "../helpers/tangle.ts";
import { askForQuote, engineTable, PROOF_BITS } from "./engine-client.ts";
import { expectBalance } from "./ledger.ts";
import {
  askForCall,
  authorize,
  decided,
  newPayer,
  offerMetered,
  startMeteredGateway,
  startMeteredParts,
} from "./metered.ts";
import type { Answer } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const { payer, payTo, stranger } = accounts;

const parts = startBeforeAll(startMeteredParts);
const gateway = startBeforeAll(() => startMeteredGateway({ parts, setUp: "rpc_url" }));

const received = () => parts.usdc.balanceOf(payTo.address);

const drain = (account: TestAccount) => parts.usdc.transfer(account, stranger.address, AMOUNT);
const approve = (account: TestAccount, amount: bigint) =>
  approvePermit2({ anvil: parts.anvil, token: parts.usdc.address, account, amount });
const revoke = (account: TestAccount) => approve(account, 0n);
const cancel = (account: TestAccount, { permit }: Permit2Payment) =>
  invalidatePermit2Nonce(parts.anvil, account, permit.nonce);

describe("A payer who can no longer pay", () => {
  it.each([
    ["his tokens are gone", "the payer's balance is less than the ceiling", drain],
    ["Permit2 has no allowance", "the payer's allowance for Permit2 is less than the ceiling", revoke],
    ["his authorization is used", "the payer's authorization was used elsewhere", cancel],
  ] as const)(
    "When %s before the job begins, it is not run, and nothing is charged",
    async (_, reason, end) => {
      const before = await received();
      const account = await newPayer(parts);
      const payment = await authorize(gateway, { account });
      await gateway.stopRunner();
      const bought = await gateway.send(payment, { body: `1 ${reason}` });
      expect(bought.status).toBe(202);
      await (end as (account: TestAccount, payment: Permit2Payment) => Promise<unknown>)(account, payment);
      // Until then jobgate trusts the funds that it read at the purchase.
      await sleep(2 * FUNDS_MS);
      await gateway.replaceRunner();
      expect(await decided(gateway, bought)).toMatchObject({
        state: "failed",
        reason,
        charge: { state: "released", amount: "0" },
        result: { status: 410 },
      });
      expect(gateway.jobsWith(`1 ${reason}`)).toEqual([]);
      expect(await received()).toBe(before);
      await expectBalance(gateway);
    },
  );

  it.each([
    ["His tokens are gone", drain, (account: TestAccount) => parts.usdc.mint(account.address, AMOUNT)],
    ["Permit2 has no allowance", revoke, (account: TestAccount) => approve(account, AMOUNT)],
  ] as const)("%s while the job runs: the result waits until he can pay again", async (what, end, mend) => {
    const before = await received();
    const account = await newPayer(parts);
    const payment = await authorize(gateway, { account });
    // Verified, and not yet told to settle.
    const isCharging = gateway.duringSettle(() =>
      (end as (account: TestAccount) => Promise<unknown>)(account),
    );
    const body = `2 ${what}`;
    const bought = await gateway.send(payment, { body });
    await isCharging;
    const asked = () => gateway.facilitatorProxy.requests.filter(({ path }) => path === "/settle").length;
    const askedBefore = asked();
    await expect.poll(asked).toBeGreaterThan(askedBefore);
    expect(await askForCall(gateway, bought)).toMatchObject({
      state: "running",
      charge: { state: "settling", amount: "2" },
      result: { status: 503 },
    });
    await mend(account);
    expect(await decided(gateway, bought)).toMatchObject({
      state: "succeeded",
      charge: { state: "settled", amount: "2" },
      result: { status: 200 },
    });
    expect(await received()).toBe(before + 2n);
    await expectBalance(gateway);
  });
});

it("One payer can have max_open_per_payer ceilings open, and others too", async () => {
  const bounded = await startMeteredGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => config.replace("[x402]\n", "[x402]\nmax_open_per_payer = 2\n"),
  });
  onTestFinished(() => bounded.stop());
  await bounded.stopRunner();
  const [account, other] = [await newPayer(parts, 3n), await newPayer(parts)];
  const buy = async (payer: TestAccount) =>
    bounded.send(await authorize(bounded, { account: payer }), { body: "1 open" });
  const [first] = [await buy(account), await buy(account)];
  expect(await buy(account)).toMatchObject({ status: 429, code: "too_many_open_payments", charged: false });
  expect((await buy(other)).status).toBe(202);
  await bounded.replaceRunner();
  expect(await decided(bounded, first)).toMatchObject({ charge: { state: "settled", amount: "1" } });
  await expect.poll(async () => (await buy(account)).status).toBe(202);
});

describe("An authorization", () => {
  it("With a high s buys nothing else, before and after the original", async () => {
    const before = await received();
    const original = await authorize(gateway);
    const { signature } = original.payload.payload as { signature: `0x${string}` };
    const payload = {
      ...original.payload,
      payload: { ...original.payload.payload, signature: highS(signature) },
    };
    const malleated = { headers: v2PaymentHeaders(payload) };
    const body = "3 malleated";
    const sold = [];
    for (const payment of [malleated, original, malleated, original])
      sold.push(await gateway.send(payment, { body }));
    const callIds = sold.flatMap(({ status, call_id }) => (status === 202 ? [call_id] : []));
    expect(new Set(callIds).size).toBe(1);
    const bought = sold.find(({ status }) => status === 202);
    expect(bought && (await decided(gateway, bought))).toMatchObject({ charge: { amount: "3" } });
    for (const { status, charged } of sold.filter(({ status }) => status !== 202)) {
      expect([402, 409]).toContain(status);
      expect(charged).not.toBe(true);
    }
    expect(gateway.jobsWith(body)).toHaveLength(1);
    expect(await received()).toBe(before + 3n);
  });

  it("That was charged buys nothing at another gateway", async () => {
    const payment = await authorize(gateway);
    const bought = await gateway.send(payment, { body: "4 here" });
    expect(await decided(gateway, bought)).toMatchObject({ charge: { state: "settled" } });
    const other = await startMeteredGateway({ parts, setUp: "rpc_url" });
    onTestFinished(() => other.stop());
    await offerMetered(other);
    expect(await other.send(payment, { body: "4 here" })).toMatchObject({
      status: 409,
      code: "authorization_used",
    });
    expect(other.delivered).toEqual([]);
  });
});

describe("A runner", () => {
  it("That charges too much is refused and keeps its lease; its next charge is used, and only once", async () => {
    const before = await received();
    await gateway.stopRunner();
    const runner = await startRunner({ address: gateway.jobgate.runnerAddress, handle: "leave" });
    const bought = await gateway.send(await authorize(gateway), { body: "by hand" });
    const [call] = await runner.waitFor(1);
    const { callId = 0n, leaseToken = "" } = call ?? {};
    const ack = (value: bigint) =>
      runner.ack({
        acks: [{ callId, leaseToken, charge: { amount: { case: "units", value: String(value) } } }],
      });
    await expect(ack(AMOUNT + 1n)).rejects.toThrow(/INVALID_ARGUMENT.*expected at most the ceiling/);
    expect(await askForCall(gateway, bought)).toMatchObject({
      state: "running",
      charge: { state: "authorized" },
    });
    expect((await ack(5n)).statuses).toEqual([LeaseStatus.DONE]);
    expect((await ack(6n)).statuses).toEqual([LeaseStatus.NOT_FOUND]);
    expect(await decided(gateway, bought)).toMatchObject({ charge: { state: "settled", amount: "5" } });
    expect((await ack(7n)).statuses).toEqual([LeaseStatus.NOT_FOUND]);
    expect(await received()).toBe(before + 5n);
    runner.kill();
    await gateway.replaceRunner();
    await expectBalance(gateway);
  });
});

it("A job with payer_is_caller is sold metered to permitted payers only", async () => {
  const tangle = await startTangle();
  onTestFinished(tangle.stop);
  await tangle.permit(payer.address);
  const restricted = await startMeteredGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) =>
      `${config
        .replace("service_id = 1", "service_id = 0")
        .replace("[job_pricing.1]", "[job_pricing.0]")
        .replace('\nmode = "public_paid"', '\nmode = "restricted_paid"')}
auth_mode = "payer_is_caller"
chain_rpc_url = "${tangle.anvil.rpcUrl}"
chain_contract = "${tangle.contract}"
`,
  });
  onTestFinished(() => restricted.stop());
  const urlOf = () => restricted.urlOf().replace("/jobs/1/", "/jobs/0/");
  const before = await received();
  const send = async (account: TestAccount, body: string) => {
    const { headers } = await authorize({ urlOf }, { account });
    const response = await fetch(urlOf(), { method: "POST", headers, body });
    return { ...((await response.json()) as Answer), status: response.status };
  };
  expect(await send(accounts.otherPayer, "8 stranger")).toMatchObject({
    status: 403,
    code: "caller_not_permitted",
    charged: false,
  });
  const bought = await send(payer, "8 caller");
  expect(bought).toMatchObject({ status: 202 });
  const [call] = await restricted.waitForJobs("8 caller");
  expect(call?.metadata).toMatchObject({
    "X-CHAIN-CALLER": payer.address.toLowerCase(),
    "X-X402-PAYMENT-SCHEME": "upto",
  });
  expect(await decided(restricted, bought)).toMatchObject({ charge: { state: "settled", amount: "8" } });
  expect(await received()).toBe(before + 8n);
});

it("A quote of the pricing engine is the ceiling, and is redeemed once", async () => {
  const quotedWei = 2_000_000_000_000_000n;
  const engine = await startPricingEngine({ difficulty: PROOF_BITS, prices: { "1/0": quotedWei } });
  onTestFinished(() => engine.stop());
  const quoting = await startMeteredGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => config + engineTable(engine),
  });
  onTestFinished(() => quoting.stop());
  const before = await received();
  const body = `${AMOUNT + 1n} quoted`;
  const { headers, digest } = await askForQuote(quoting.jobgate.listeners.get("pricing") as string, engine, {
    body,
  });
  await offerMetered(quoting);
  const sign = async () =>
    signMeteredPayment({ offer: await offerMetered(quoting, { body, headers }), account: payer });
  const [first, second] = [await sign(), await sign()];
  expect(first.permit.permitted.amount).toBe(String(2n * AMOUNT));
  const bought = await quoting.send(first, { body, headers });
  expect(bought).toMatchObject({ status: 202, receipt: digest });
  expect(await quoting.send(second, { body, headers })).toMatchObject({
    status: 409,
    code: "quote_conflict",
  });
  expect(await decided(quoting, bought)).toMatchObject({
    charge: { state: "settled", amount: String(AMOUNT + 1n) },
  });
  expect(await quoting.send(second, { body, headers })).toMatchObject({
    status: 409,
    code: "quote_conflict",
  });
  expect(await received()).toBe(before + AMOUNT + 1n);
  await expectBalance(quoting);
});

// Last: it moves the chain's time.
it("A payer who takes back the allowance and lets the authorization end gets no result", async () => {
  const before = await received();
  const account = await newPayer(parts);
  const payment = await authorize(gateway, { account });
  const isCharging = gateway.duringSettle(() => revoke(account));
  const bought = await gateway.send(payment, { body: "9 never" });
  await isCharging;
  await parts.passTime(600);
  expect(await decided(gateway, bought)).toMatchObject({
    state: "failed",
    charge: { state: "failed", amount: "9" },
    result: { status: 402, text: expect.stringContaining("settlement_failed") },
  });
  await expect.poll(() => gateway.jobgate.logs.join("\n")).toContain("could not be charged");
  expect(await received()).toBe(before);
  await expectBalance(gateway);
});
