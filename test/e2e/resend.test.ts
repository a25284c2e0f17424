import { afterAll, expect, it } from "vitest";
import { createOperatorClient } from "../../src/commands/operator-client.ts";
import { CallState } from "../../src/gen/jobgate/v1/operator_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const SIGNED = { by: "ada", note: "the model was wrong" };

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle({ body, metadata }) {
      // A runner of a metered job names a charge whatever the origin of its call is.
      if ("X-OPERATOR-ORIGIN" in metadata) return { body: Buffer.from("done"), charge: 5n };
      if (Buffer.from(body).toString() === "no ink") throw new Fail("no ink");
      return undefined;
    },
  }),
);
const client = () => createOperatorClient({ address: { url: gateway.jobgate.operatorUrl } });

afterAll(async () => expect((await client().getTotals({})).balanced).toBe(true));

it("moves no money, is not a sale, and leaves the call that was bought and its answer to the buyer", async () => {
  const payment = await gateway.sign();
  const bought = await gateway.send(payment, { body: "no ink" });
  const callId = BigInt(bought.call_id ?? 0);
  await expect.poll(async () => (await client().getCall({ callId })).call?.state).toBe(CallState.DEAD);
  const money = async () => {
    const { payments, paidCalls, balanced } = await client().getTotals({});
    const { revenue } = await client().getRevenue({});
    const stats = await (await fetch(`${gateway.jobgate.x402Url}/x402/stats`)).json();
    return {
      ...{ payments, paidCalls, balanced, revenue, stats },
      held: await parts.usdc.balanceOf(accounts.payTo.address),
      first: await client().getCall({ callId }),
      again: await gateway.send(payment, { body: "no ink" }),
    };
  };
  await money();
  const before = await money();
  const resent = await client().resendCall({ callId, requestKey: "one", ...SIGNED });
  await expect
    .poll(async () => (await client().getCall({ callId: resent.callId })).call?.state)
    .toBe(CallState.DONE);
  const delivered = gateway.delivered.find((call) => call.callId === resent.callId);
  expect(Buffer.from(delivered?.body ?? []).toString()).toBe("no ink");
  expect(delivered?.metadata).toMatchObject({
    "X-X402-PAYER": accounts.payer.address.toLowerCase(),
    "X-OPERATOR-RESENT-CALL-ID": String(callId),
  });
  const { payment: paid, call } = await client().getCall({ callId: resent.callId });
  expect([paid, call?.origin, call?.amountText, call?.payer]).toEqual([undefined, "operator", "", ""]);
  const after = await money();
  // Each payment that is sent again is counted, and nothing else has changed.
  expect({ ...after, stats: undefined }).toEqual({ ...before, stats: undefined });
  const read = await fetch(`${gateway.jobgate.x402Url}/x402/calls/${resent.callId}/result`, {
    headers: { authorization: `Bearer ${bought.access_token}` },
  });
  expect([read.status, Object.keys((await read.json()) as object)]).not.toContain("done");
  expect(read.ok).toBe(false);
});

it("is done while it is in the queue beside the call that it repeats, and survives a restart", async () => {
  await client().pause({ target: "1/0", by: "ada" });
  const bought = await gateway.send(await gateway.sign(), { body: "waits" });
  const { callId } = await client().resendCall({
    callId: BigInt(bought.call_id ?? 0),
    requestKey: "two",
    ...SIGNED,
  });
  await gateway.restart();
  expect((await client().getCall({ callId })).call?.state).toBe(CallState.READY);
  await client().resume({ target: "1/0", by: "ada" });
  await expect.poll(async () => (await client().getCall({ callId })).call?.state).toBe(CallState.DONE);
});
