import { beforeEach, describe, expect, it } from "vitest";
import type { CounterName } from "../../src/x402/stats.ts";
import { startPaidParts } from "../e2e/paid-parts.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../helpers/clients.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { type Reply, startAnotherGateway, startTestGateway } from "./gateway-harness.ts";
import { USDC } from "./payments.ts";

const parts = startBeforeAll(startPaidParts);
const facilitator = startBeforeAll(() => startFaultProxy({ target: parts.facilitator.url }));
const gateway = startBeforeAll(() => startTestGateway({ config: { facilitatorUrl: facilitator.url } }));
beforeEach(() => facilitator.clear());

async function counters({ url } = gateway): Promise<Record<CounterName, number>> {
  const { status, counters: counts } = (await (await fetch(`${url}/x402/stats`)).json()) as {
    status: string;
    counters: Record<CounterName, number>;
  };
  expect(status).toBe("ok");
  return counts;
}

/** Returns the change of each counter that an action changes. */
async function moved(
  deed: () => Promise<unknown>,
  at = gateway,
): Promise<Partial<Record<CounterName, number>>> {
  const before = await counters(at);
  await deed();
  const after = await counters(at);
  return Object.fromEntries(
    Object.entries(after)
      .map(([name, count]) => [name, count - before[name as CounterName]] as const)
      .filter(([, count]) => count !== 0),
  );
}

describe("What each counter counts", () => {
  it("accepted and payment_replayed", async () => {
    const payment = await gateway.sign();
    expect(await moved(() => gateway.post(payment.headers))).toEqual({ accepted: 1 });
    expect(await moved(() => gateway.post(payment.headers))).toEqual({ payment_replayed: 1 });
    expect(await moved(() => gateway.post(payment.headers, { body: "other" }))).toEqual({
      payment_replayed: 1,
    });
  });

  it("job_not_found, policy_denied for a disabled job, payment_required", async () => {
    expect(await moved(() => gateway.post({}, { job: 9 }))).toEqual({ job_not_found: 1 });
    expect(await moved(() => gateway.post({}, { job: 2 }))).toEqual({ policy_denied: 1 });
    expect(await moved(() => gateway.post({}))).toEqual({ payment_required: 1 });
  });

  it("payment_invalid: malformed, a mismatch, or refused by the facilitator", async () => {
    expect(await moved(() => gateway.post({ "payment-signature": "x" }))).toEqual({ payment_invalid: 1 });
    const { v2 } = await requestOffer(gateway.jobUrl());
    const short = await signV2Payment({ offer: v2, account: accounts.payer, authorization: { value: "1" } });
    expect(await moved(() => gateway.post(short.headers))).toEqual({ payment_invalid: 1 });
    const poor = await signV2Payment({ offer: v2, account: accounts.caller });
    expect(await moved(() => gateway.post(poor.headers))).toEqual({ payment_invalid: 1 });
  });

  it("settlement_unknown, and accepted once the reconciler settles the payment", async () => {
    const other = await startAnotherGateway({ config: { facilitatorUrl: facilitator.url } });
    const payment = await other.sign();
    facilitator.add({ path: "/settle", fault: { kind: "cut" } });
    expect(await moved(() => other.post(payment.headers), other)).toEqual({ settlement_unknown: 1 });
    facilitator.clear();
    await expect
      .poll(async () => (await counters(other)).accepted, { interval: 20, timeout: 15_000 })
      .toBe(1);
    expect(await moved(() => other.post(payment.headers), other)).toEqual({ payment_replayed: 1 });
  });

  it("settlement_failed", async () => {
    const token = { ...USDC, rpcUrl: parts.anvil.rpcUrl, requireOnchainConfirmation: true };
    const other = await startAnotherGateway({
      config: { facilitatorUrl: facilitator.url, acceptedTokens: [token] },
    });
    const payment = await other.sign();
    const { nonce } = payment.signed.authorization;
    // The payer cancels between verify and settle, so it is certain that nothing moved.
    const cancelled = facilitator.during({ path: "/settle", when: ({ body }) => body.includes(nonce) }, () =>
      parts.usdc.cancelAuthorization(accounts.payer, nonce),
    );
    expect(await moved(() => other.post(payment.headers), other)).toEqual({ settlement_failed: 1 });
    await cancelled;
  });

  it("enqueue_failed: no room in the queue", async () => {
    const full = await startAnotherGateway({
      config: { facilitatorUrl: facilitator.url },
      maxPending: 1,
    });
    const [first, second] = [await full.sign(), await full.sign()];
    expect((await full.post(first.headers)).status).toBe(202);
    let refused: Reply | undefined;
    const deed = async () => {
      refused = await full.post(second.headers);
    };
    expect(await moved(deed, full)).toEqual({ enqueue_failed: 1 });
    expect(refused).toMatchObject({
      status: 503,
      body: { code: "queue_full", charged: false, retryable: true },
    });
  });
});
