import type { Hex } from "viem";
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ACCEPTED, FAILED, UNDECIDED } from "../../e2e/expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "../../e2e/ledger.ts";
import { withPermit2 } from "../../e2e/paid-config.ts";
import { type PaidGateway, startPaidGateway } from "../../e2e/paid-gateway.ts";
import { startPaidParts } from "../../e2e/paid-parts.ts";
import { StaleNode } from "../../e2e/stale-node.ts";
import { accounts, type TestAccount } from "../../helpers/accounts.ts";
import { MULTICALL3, sendTransaction } from "../../helpers/anvil.ts";
import { type Permit2Payment, requestOffer, signPermit2Payment } from "../../helpers/clients.ts";
import { approvePermit2, installPermit2 } from "../../helpers/permit2.ts";
import {
  batchCall,
  type ContractCall,
  cancelCall,
  otherUseCall,
  settleCall,
} from "../../helpers/permit2-calls.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const parts = startBeforeAll(startPaidParts);
beforeAll(async () => {
  const { anvil, usdc } = parts;
  await installPermit2(anvil);
  await approvePermit2({ anvil, token: usdc.address, account: accounts.payer });
});
const gateway = startBeforeAll(() => startGateway(1));
const careful = startBeforeAll(() => startGateway(3));
afterEach(() => {
  for (const { facilitatorProxy, rpcProxy } of [gateway, careful]) {
    facilitatorProxy.clear();
    rpcProxy.clear();
  }
});

function startGateway(confirmations: number): Promise<PaidGateway> {
  return startPaidGateway({
    rpcFaults: true,
    parts,
    setUp: "rpc_url",
    confirmations,
    periods: { confirmationTimeoutMs: 500, firstDelayMs: 50, slowRoundMs: 200 },
    edit: withPermit2,
  });
}

async function sign(seller: PaidGateway): Promise<Permit2Payment> {
  const [{ v2: offer }, now] = await Promise.all([requestOffer(seller.urlOf()), parts.chainTimeSecs()]);
  const deadline = String(Math.max(now, Math.floor(Date.now() / 1000)) + 300);
  return signPermit2Payment({ offer, account: accounts.payer, option: 1, permit: { deadline } });
}

/** Payments whose request to settle never arrives. */
async function undecided(
  seller: PaidGateway,
  body: string,
  count: number,
): Promise<readonly Permit2Payment[]> {
  seller.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
  const payments = await Promise.all(Array.from({ length: count }, () => sign(seller)));
  for (const payment of payments) expect(await seller.send(payment, { body })).toEqual(UNDECIDED);
  return payments;
}

async function mineCall(
  { target, callData }: ContractCall,
  from: TestAccount = accounts.stranger,
): Promise<Hex> {
  const { transactionHash } = await sendTransaction({ anvil: parts.anvil, from, to: target, data: callData });
  return transactionHash;
}

describe("Permit2: the chain decides", () => {
  it("A settlement whose answer is lost is found by search: 202, and one job", async () => {
    const body = "lost answer";
    const payment = await sign(gateway);
    const expectChanges = await watchLedger(parts, gateway);
    gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "lose-answer" } });
    expect(await gateway.sendUntilDecided(payment, { body })).toMatchObject(ACCEPTED);
    await gateway.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("One transaction that pays one payment and burns the nonce of another → one job, not two", async () => {
    const body = "one in one";
    const expectChanges = await watchLedger(parts, gateway);
    const [paid, burnt] = (await undecided(gateway, body, 2)) as [Permit2Payment, Permit2Payment];
    const { nonce } = burnt.permit;
    await mineCall(batchCall([await otherUseCall(parts, { nonce, spender: MULTICALL3 }), settleCall(paid)]));
    expect(await gateway.sendUntilDecided(paid, { body })).toMatchObject(ACCEPTED);
    expect(await gateway.sendUntilDecided(burnt, { body })).toMatchObject(FAILED);
    await gateway.waitForJobs(body);
    await expectChanges({
      verifyCalls: 2,
      settleCalls: 2,
      // The other use of the nonce moved one unit to the recipient.
      received: ONE_PAID_JOB.received + 1n,
      jobs: 1,
      payments: { settled: 1, failed: 1 },
    });
  });

  it("Says settled, naming the transaction of another payment → no job, and settlement_failed once it is cancelled", async () => {
    const body = "foreign transaction";
    const [payment, other] = [await sign(gateway), await sign(gateway)];
    const transaction = await mineCall(settleCall(other));
    const expectChanges = await watchLedger(parts, gateway);
    gateway.facilitatorProxy.add({
      path: "/settle",
      fault: {
        kind: "answer",
        status: 200,
        body: { success: true, transaction, network: "eip155:84532", payer: accounts.payer.address },
      },
    });
    expect(await gateway.send(payment, { body })).toEqual(UNDECIDED);
    await mineCall(cancelCall(payment.permit.nonce), accounts.payer);
    expect(await gateway.sendUntilDecided(payment, { body })).toMatchObject(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("A nonce that was used before jobgate sees it → 409 authorization_used with its transaction, no settle", async () => {
    const payment = await sign(gateway);
    const transaction = await mineCall(settleCall(payment));
    const expectChanges = await watchLedger(parts, gateway);
    const { headers } = payment;
    const response = await fetch(gateway.urlOf(), { method: "POST", headers, body: "used" });
    expect([response.status, await response.json()]).toMatchObject([
      409,
      { code: "authorization_used", charged: "unknown", transaction },
    ]);
    await expectChanges({ verifyCalls: 1 });
  });

  it("A settlement that comes back in another block after a reorganisation is one job", async () => {
    const body = "came back";
    const { client } = parts.anvil;
    const before = await client.snapshot();
    const [payment] = (await undecided(careful, body, 1)) as [Permit2Payment];
    await mineCall(settleCall(payment));
    expect(await careful.send(payment, { body })).toEqual(UNDECIDED);
    await client.revert({ id: before });
    await client.mine({ blocks: 2 });
    await mineCall(batchCall([settleCall(payment)]));
    expect(careful.jobsWith(body)).toEqual([]);
    await client.mine({ blocks: 2 });
    expect(await careful.sendUntilDecided(payment, { body })).toMatchObject(ACCEPTED);
    expect(await careful.waitForJobs(body)).toHaveLength(1);
  });

  it("An RPC address with a second node that lags or is on a fork: every payment is decided rightly", async () => {
    const body = "two nodes";
    const payments = await undecided(careful, body, 6);
    const stale = await StaleNode.start(parts.anvil, parts.usdc, [
      { lag: 2, ownBlocks: 2, aheadSecs: 400, ms: 100 },
      { lag: 20, ownBlocks: 0, aheadSecs: 0, ms: 100 },
    ]);
    onTestFinished(() => stale.stop());
    // Of the first answers, two in three come from the other node.
    let asked = 0;
    for (const whateverBlock of [true, false]) {
      const when = () => ++asked % 3 !== 0;
      careful.rpcProxy.add({ when, times: 20, fault: stale.answer({ whateverBlock }) });
    }
    for (const [index, payment] of payments.entries()) {
      if (index % 2 === 0) await mineCall(settleCall(payment));
      else await mineCall(cancelCall(payment.permit.nonce), accounts.payer);
    }
    await parts.anvil.client.mine({ blocks: 20 });
    for (const [index, payment] of payments.entries()) {
      const answer = await careful.sendUntilDecided(payment, { body });
      expect(answer).toMatchObject(index % 2 === 0 ? ACCEPTED : FAILED);
    }
    expect(await careful.waitForJobs(body, 3)).toHaveLength(3);
  });
});
