import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { type Anvil, startAnvil } from "../helpers/anvil.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, FAILED, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type Payment, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
/** One RPC address with several nodes behind it. */
const rpc = startBeforeAll(startRouter);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    periods: { confirmationTimeoutMs: 500, firstDelayMs: 50, slowRoundMs: 200 },
    edit: (config) => config.replace(/rpc_url = ".*"/, `rpc_url = "${rpc.url}"`),
  }),
);
afterEach(() => {
  gateway.facilitatorProxy.clear();
  rpc.route = () => parts.anvil;
});

describe("Chain views: an RPC address whose nodes differ", () => {
  it.each([
    ["one lags behind", async () => undefined],
    ["one is on another fork, where the authorization expired unused", letExpire],
  ])(
    "When %s, a paid payment is not failed for good: one job, and 202 on a resend",
    async (body, goOn) => {
      const expectChanges = await watchLedger(parts, gateway);
      const { payment, other } = await undecidedPayment(body);
      await parts.usdc.transferWithAuthorization(payment.signed);
      await letExpire(parts.anvil);
      await goOn(other);
      rpc.route = shuffled(parts.anvil, other, 10);
      const { call_id } = await sendUntilAccepted(payment, body);
      expect(await gateway.journal.paymentOf(payment.signed)).toMatchObject({
        state: "settled",
        callId: call_id,
      });
      await gateway.waitForJobs(body);
      await expectChanges(ONE_PAID_JOB);
    },
    120_000,
  );

  it("When all show another fork, a paid payment fails, and is settled after all once they show the chain", async () => {
    const body = "another fork";
    const expectChanges = await watchLedger(parts, gateway);
    const { payment, other } = await undecidedPayment(body);
    rpc.route = () => other;
    await parts.usdc.transferWithAuthorization(payment.signed);
    await letExpire(other);
    expect(await gateway.sendUntilDecided(payment, { body, timeoutMs: 60_000 })).toMatchObject(FAILED);
    expect(gateway.jobsWith(body)).toEqual([]);

    rpc.route = () => parts.anvil;
    const { call_id, access_token, ...answer } = await sendUntilAccepted(payment, body);
    expect(answer).toMatchObject(ACCEPTED);
    await gateway.waitForJobs(body);
    const call = await fetch(`${gateway.jobgate.x402Url}/x402/calls/${call_id}`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    expect([call.status, await call.json()]).toMatchObject([200, { call_id }]);
    expect(gateway.jobgate.logs.join()).toContain("a payment recorded as failed turned out to be paid");
    const metrics = await fetch(`${gateway.jobgate.operatorUrl}/metrics`);
    expect(await metrics.text()).toMatch(/^jobgate_payments_contradicted_total\{recorded="failed",/m);
    await expectChanges(ONE_PAID_JOB);
  }, 120_000);
});

/** A payment whose settlement was cut off, and a node that has the chain up to then. */
async function undecidedPayment(body: string): Promise<{ payment: Payment; other: Anvil }> {
  const payment = await gateway.sign();
  const head = await parts.anvil.client.getBlockNumber();
  const other = await startAnvil({
    extraArgs: ["--fork-url", parts.anvil.rpcUrl, "--fork-block-number", String(head)],
  });
  onTestFinished(() => other.stop());
  gateway.facilitatorProxy.add({ path: "/settle", fault: { kind: "cut" } });
  expect(await gateway.send(payment, { body })).toEqual(UNDECIDED);
  return { payment, other };
}

/** Sends some requests to either node, in an order that is the same in each run, and then all to the first. */
function shuffled(first: Anvil, second: Anvil, requests: number): () => Anvil {
  let left = requests;
  let seed = 1;
  return () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return left-- > 0 && seed > 2 ** 30 ? second : first;
  };
}

/** Mines past the end of the authorization. */
async function letExpire({ client }: Anvil): Promise<void> {
  await client.increaseTime({ seconds: 400 });
  await client.mine({ blocks: 20, interval: 1 });
}

/** Sends the payment again until it is accepted: a refusal before may be a decision that does not last. */
async function sendUntilAccepted(payment: Payment, body: string) {
  let answer = await gateway.send(payment, { body });
  const status = async () => {
    answer = await gateway.send(payment, { body });
    return answer.status;
  };
  await expect.poll(status, { timeout: 100_000, interval: 100 }).toBe(202);
  return answer;
}

/** Forwards each request to the node that `route` returns. */
async function startRouter() {
  const forward = async (incoming: IncomingMessage, response: ServerResponse) => {
    const answer = await fetch(router.route().rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: new Uint8Array(await buffer(incoming)),
    });
    const text = await answer.text();
    response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
  };
  const { url, stop } = await listenHttp({
    handler(incoming, response) {
      forward(incoming, response).catch(() => response.destroy());
    },
  });
  const router = { url, stop, route: (): Anvil => parts.anvil };
  return router;
}
