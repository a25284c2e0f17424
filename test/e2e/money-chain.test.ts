import { encodeFunctionData, type Hex, multicall3Abi } from "viem";
import { afterEach, describe, expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { MULTICALL3, sendTransaction } from "../helpers/anvil.ts";
import type { Fault } from "../helpers/fault.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { transferCalldata } from "../helpers/usdc.ts";
import { ACCEPTED, FAILED, UNAVAILABLE, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const withRpc = startBeforeAll(() =>
  startPaidGateway({
    rpcFaults: true,
    parts,
    setUp: "rpc_url",
    periods: { rpcTimeoutMs: 3_000, confirmationTimeoutMs: 1_000 },
  }),
);
const withoutRpc = startBeforeAll(() => startPaidGateway({ parts, setUp: "no rpc_url" }));
afterEach(() => {
  withRpc.facilitatorProxy.clear();
  withRpc.rpcProxy.clear();
});

describe("Chain: the authorization is used before the facilitator settles", () => {
  it("Authorization front-run by someone else → paid: 202 and one job", async () => {
    const body = "front-run";
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    const used = withRpc.duringSettle(() => parts.usdc.transferWithAuthorization(payment.signed));
    const answer = withRpc.send(payment, { body });
    const transaction = await used;
    expect(await answer).toMatchObject({ status: 202, settlement: { success: true, transaction } });
    expect(await withRpc.send(payment, { body })).toEqual(await answer);
    await withRpc.waitForJobs(body);
    await expectChanges(ONE_PAID_JOB);
  });

  it("Authorization front-run by someone else, without rpc_url → undecided: 503, no job", async () => {
    const payment = await withoutRpc.sign();
    const used = withoutRpc.duringSettle(() => parts.usdc.transferWithAuthorization(payment.signed));
    const answer = withoutRpc.send(payment);
    await used;
    expect(await answer).toEqual(UNDECIDED);
    expect(await withoutRpc.journal.totals()).toMatchObject({ payments: { intent: 1 }, calls: { held: 1 } });
    expect(withoutRpc.delivered).toEqual([]);
  });

  it.each([0, 40])(
    "Authorization used %i blocks before jobgate sees it → 409 authorization_used with its transaction, no settle",
    async (blocks) => {
      const payment = await withRpc.sign();
      const expectChanges = await watchLedger(parts, withRpc);
      const transaction = await parts.usdc.transferWithAuthorization(payment.signed);
      await parts.anvil.client.mine({ blocks });
      const answer = await fetch(withRpc.urlOf(), { method: "POST", headers: payment.headers, body: "work" });
      expect(answer.status).toBe(409);
      expect(await answer.json()).toMatchObject({
        code: "authorization_used",
        charged: "unknown",
        retryable: false,
        transaction,
      });
      await expectChanges({ verifyCalls: 1, received: ONE_PAID_JOB.received });
    },
  );

  it("Authorization cancelled by the payer → not paid: 402 settlement_failed, no job", async () => {
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    const cancelled = withRpc.duringSettle(() =>
      parts.usdc.cancelAuthorization(accounts.payer, payment.signed.authorization.nonce),
    );
    const answer = withRpc.send(payment);
    await cancelled;
    expect(await answer).toMatchObject(FAILED);
    expect(await withRpc.send(payment)).toEqual(await answer);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("Nonce used for a transfer to someone else → not paid: 402 settlement_failed, no job", async () => {
    const payment = await withRpc.sign();
    const elsewhere = await withRpc.sign({
      authorization: { nonce: payment.signed.authorization.nonce, to: accounts.stranger.address },
    });
    const expectChanges = await watchLedger(parts, withRpc);
    const used = withRpc.duringSettle(() => parts.usdc.transferWithAuthorization(elsewhere.signed));
    const answer = withRpc.send(payment);
    await used;
    expect(await answer).toMatchObject(FAILED);
    await expectChanges({ verifyCalls: 1, settleCalls: 1, payments: { failed: 1 } });
  });

  it("One transaction that uses two authorizations and pays once → one job, not two", async () => {
    const body = "two in one";
    const paid = await withRpc.sign();
    const unpaid = await withRpc.sign();
    const diverted = await withRpc.sign({
      authorization: { nonce: unpaid.signed.authorization.nonce, to: accounts.stranger.address },
    });
    const expectChanges = await watchLedger(parts, withRpc);
    withRpc.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
    for (const payment of [paid, unpaid]) expect(await withRpc.send(payment, { body })).toEqual(UNDECIDED);

    await inOneTransaction([transferCalldata(paid.signed), transferCalldata(diverted.signed)]);
    expect(await withRpc.sendUntilDecided(paid, { body })).toMatchObject(ACCEPTED);
    expect(await withRpc.sendUntilDecided(unpaid, { body })).toMatchObject(FAILED);
    await withRpc.waitForJobs(body);
    await expectChanges({
      ...ONE_PAID_JOB,
      verifyCalls: 2,
      settleCalls: 2,
      payments: { settled: 1, failed: 1 },
    });
  });

  it("One transaction that uses two authorizations and pays twice → two jobs", async () => {
    const body = "two and two";
    const payments = [await withRpc.sign(), await withRpc.sign()];
    withRpc.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
    for (const payment of payments) expect(await withRpc.send(payment, { body })).toEqual(UNDECIDED);
    await inOneTransaction(payments.map(({ signed }) => transferCalldata(signed)));
    const answers = await Promise.all(payments.map((payment) => withRpc.sendUntilDecided(payment, { body })));
    expect(answers).toEqual([expect.objectContaining(ACCEPTED), expect.objectContaining(ACCEPTED)]);
    expect(answers[0]?.call_id).not.toBe(answers[1]?.call_id);
    expect(await withRpc.waitForJobs(body, 2)).toHaveLength(2);
  });
});

describe("Chain: its RPC", () => {
  const rpcResult = (result: unknown): Fault => ({
    kind: "change",
    change: (answer, { body }) => {
      const { id } = JSON.parse(body.toString()) as { id: number };
      return { ...answer, body: Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, result })) };
    },
  });
  const faults: Record<string, [rpcMethod: string | undefined, fault: Fault]> = {
    "RPC down": [undefined, { kind: "cut" }],
    "wrong-length answer": ["eth_call", rpcResult("0x01")],
    "time-out": ["eth_call", { kind: "no-answer" }],
    "logs that lag behind": ["eth_getLogs", rpcResult([])],
  };
  it.each(Object.entries(faults))(
    "%s → 503 while it lasts, nothing is decided; then 202 with the same call_id",
    async (what, [rpcMethod, fault]) => {
      const payment = await withRpc.sign();
      const expectChanges = await watchLedger(parts, withRpc);
      withRpc.facilitatorProxy.add({ path: "/settle", fault: { kind: "lose-answer" } });
      withRpc.rpcProxy.add({ ...(rpcMethod === undefined ? {} : { rpcMethod }), fault });
      expect(await withRpc.send(payment, { body: what })).toEqual(UNDECIDED);
      const record = await withRpc.journal.paymentOf(payment.signed);
      expect(record?.state).toBe("intent");
      withRpc.rpcProxy.clear();
      expect(await withRpc.sendUntilDecided(payment, { body: what })).toMatchObject({
        ...ACCEPTED,
        call_id: record?.callId,
      });
      await withRpc.waitForJobs(what);
      await expectChanges(ONE_PAID_JOB);
    },
  );

  it.each([
    ["RPC down", undefined, { kind: "cut" }],
    ["wrong chain id", "eth_chainId", rpcResult("0x1")],
  ] as const)(
    "%s at start → nothing can be confirmed, so nothing is charged: 503, no settle",
    async (what, rpcMethod, fault) => {
      withRpc.rpcProxy.add({ ...(rpcMethod === undefined ? {} : { rpcMethod }), fault });
      await withRpc.restart();
      const payment = await withRpc.sign();
      const expectChanges = await watchLedger(parts, withRpc);
      expect(await withRpc.send(payment, { body: what })).toEqual(UNAVAILABLE);
      await expectChanges({ verifyCalls: 1 });
      withRpc.rpcProxy.clear();
      expect(await withRpc.sendUntilDecided(payment, { body: what })).toMatchObject(ACCEPTED);
      await withRpc.waitForJobs(what);
      await expectChanges({ ...ONE_PAID_JOB, verifyCalls: 2 });
    },
  );
});

/** Everyone may carry out authorizations, several in one go. */
async function inOneTransaction(calls: readonly Hex[]): Promise<void> {
  const data = encodeFunctionData({
    abi: multicall3Abi,
    functionName: "aggregate3",
    args: [calls.map((callData) => ({ target: parts.usdc.address, allowFailure: false, callData }))],
  });
  await sendTransaction({ anvil: parts.anvil, from: accounts.stranger, to: MULTICALL3, data });
}
