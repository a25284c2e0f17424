import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { payingFetch } from "../helpers/clients.ts";
import { listenHttp } from "../helpers/http-listener.ts";
import { invalidatePermit2Nonce } from "../helpers/permit2.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { startRun } from "../runner/start-run.ts";
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
import type { PaidGateway, SetUp } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";

const { payer, payTo } = accounts;

const parts = startBeforeAll(startMeteredParts);
const startGateway = (setUp: SetUp): Promise<PaidGateway> => startMeteredGateway({ parts, setUp });

async function listFailed({ jobgate }: PaidGateway): Promise<object[]> {
  const answer = await fetch(`${jobgate.operatorUrl}/jobgate.v1.OperatorService/ListPayments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"state":"PAYMENT_STATE_FAILED","page_size":1}',
  });
  return ((await answer.json()) as { payments: object[] }).payments;
}

/** Passes requests on to a facilitator, and has it settle another amount. */
async function startAlteringFacilitator(target: string, amount: string) {
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const sent =
      request.method === "POST" ? ((await json(request)) as { paymentRequirements: object }) : undefined;
    const isSettle = request.url === "/settle";
    const body = isSettle ? { ...sent, paymentRequirements: { ...sent?.paymentRequirements, amount } } : sent;
    const answer = await fetch(`${target}${request.url}`, {
      method: request.method ?? "GET",
      ...(body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  };
  return listenHttp({ handler: (request, response) => void respond(request, response) });
}

describe.each(["rpc_url"] as const)("metered payments, with %s", (setUp) => {
  const gateway = startBeforeAll(() => startGateway(setUp));

  it("The official client buys, and the runner is told what it may charge", async () => {
    const before = await parts.usdc.balanceOf(payTo.address);
    await offerMetered(gateway);
    const pay = payingFetch({
      account: payer,
      network: "eip155:84532",
      spendControls: false,
      scheme: "upto",
    });
    const response = await pay(gateway.urlOf(), { method: "POST", body: "7 official" });
    expect(response.status).toBe(202);
    expect(response.headers.get("payment-response")).toBeNull();
    const bought = (await response.json()) as { call_id: number; access_token: string };
    const [call] = await gateway.waitForJobs("7 official");
    expect(call?.metadata).toMatchObject({
      "X-X402-PAYMENT-SCHEME": "upto",
      "X-X402-PAYMENT-AMOUNT": String(AMOUNT),
      "X-X402-PAYER": payer.address.toLowerCase(),
    });
    expect(await decided(gateway, bought)).toMatchObject({
      state: "succeeded",
      charge: {
        state: "settled",
        amount: "7",
        ceiling: String(AMOUNT),
        transaction: expect.stringMatching(/^0x/),
      },
      result: { status: 200, text: "result of 7 official" },
    });
    expect(await parts.usdc.balanceOf(payTo.address)).toBe(before + 7n);
    await expectBalance(gateway);
  });

  it.each([
    ["nothing", "0", 0n],
    ["one unit", "1", 1n],
    ["half", String(AMOUNT / 2n), AMOUNT / 2n],
    ["all", "all", AMOUNT],
  ])("A charge of %s moves exactly that", async (name, charge, amount) => {
    const before = await parts.usdc.balanceOf(payTo.address);
    const payment = await authorize(gateway);
    const body = `${charge} ${name} ${setUp}`;
    const bought = await gateway.send(payment, { body });
    expect(bought.status).toBe(202);
    expect(await decided(gateway, bought)).toMatchObject({
      state: "succeeded",
      charge: { state: amount === 0n ? "released" : "settled", amount: String(amount) },
      result: { status: 200 },
    });
    expect(await parts.usdc.balanceOf(payTo.address)).toBe(before + amount);
    // The same authorization again is the same purchase, and buys nothing else.
    expect(await gateway.send(payment, { body })).toMatchObject({ status: 202, call_id: bought.call_id });
    expect(await gateway.send(payment, { body: "another" })).toMatchObject({
      status: 409,
      code: "payment_replay",
    });
    expect(await parts.usdc.balanceOf(payTo.address)).toBe(before + amount);
    await expectBalance(gateway);
  });

  it("A job that fails for good charges nothing", async () => {
    const before = await parts.usdc.balanceOf(payTo.address);
    const bought = await gateway.send(await authorize(gateway), { body: `fail ${setUp}` });
    expect(await decided(gateway, bought)).toMatchObject({
      state: "failed",
      charge: { state: "released", amount: "0" },
    });
    expect(await parts.usdc.balanceOf(payTo.address)).toBe(before);
    await expectBalance(gateway);
  });

  it("An authorization that ends before the job can is refused", async () => {
    const payment = await authorize(gateway, { secs: 150 });
    expect(await gateway.send(payment, { body: "1 short" })).toMatchObject({
      status: 402,
      code: "payment_mismatch",
    });
  });
});

describe("metered payments that cannot be charged", () => {
  const gateway = startBeforeAll(() => startGateway("rpc_url"));

  it("A nonce that the payer cancels while the job runs: no result, and the loss is logged", async () => {
    const account = await newPayer(parts);
    const payment = await authorize(gateway, { account });
    const cancelled = gateway.duringSettle(() =>
      invalidatePermit2Nonce(parts.anvil, account, payment.permit.nonce),
    );
    const bought = await gateway.send(payment, { body: "3 cancelled" });
    await cancelled;
    expect(await decided(gateway, bought)).toMatchObject({
      state: "failed",
      charge: { state: "failed", amount: "3" },
      result: { status: 402, text: expect.stringContaining("settlement_failed") },
    });
    await expect.poll(() => gateway.jobgate.logs.join("\n")).toContain("could not be charged");
    const metrics = await (await fetch(`${gateway.jobgate.operatorUrl}/metrics`)).text();
    expect(metrics).toMatch(/^jobgate_charges_lost_total\{[^}]*symbol="USDC"[^}]*\} 1$/m);
    await expectBalance(gateway);
  });

  it.each([true, false])(
    "A facilitator that settles another amount, with require_onchain_confirmation = %s: the charge is settled with the amount that moved, with an alert",
    async (isRequired) => {
      const facilitator = await startAlteringFacilitator(parts.facilitator.url, "4");
      const altered = await startMeteredGateway({
        parts,
        setUp: "rpc_url",
        edit: (config) =>
          config
            .replace(/^facilitator_url = .*$/m, `facilitator_url = "${facilitator.url}"`)
            .replace(/^rpc_url = .*$/m, `$&\nrequire_onchain_confirmation = ${isRequired}`),
      });
      try {
        const before = await parts.usdc.balanceOf(payTo.address);
        const bought = await altered.send(await authorize(altered), { body: "6 altered" });
        expect(await decided(altered, bought)).toMatchObject({
          state: "succeeded",
          charge: { state: "settled", amount: "4", transaction: expect.stringMatching(/^0x/) },
          result: { status: 200, text: "result of 6 altered" },
        });
        expect(await parts.usdc.balanceOf(payTo.address)).toBe(before + 4n);
        expect(altered.jobgate.logs.join("\n")).toContain("moved another amount than the charge");
        const metrics = await (await fetch(`${altered.jobgate.operatorUrl}/metrics`)).text();
        expect(metrics).toMatch(/^jobgate_charges_altered_total\{[^}]*symbol="USDC"[^}]*\} 1$/m);
        await expectBalance(altered);
      } finally {
        await altered.stop();
        await facilitator.stop();
      }
    },
  );

  it("One authorization at two gateways pays for one job, and the other gives no result", async () => {
    const other = await startGateway("rpc_url");
    try {
      const before = await parts.usdc.balanceOf(payTo.address);
      const payment = await authorize(gateway);
      await offerMetered(other);
      const sold = await Promise.all([
        gateway.send(payment, { body: "5 twice" }),
        other.send(payment, { body: "9 twice" }),
      ]);
      expect(sold.map(({ status }) => status)).toEqual([202, 202]);
      const ends = [await decided(gateway, sold[0]), await decided(other, sold[1])];
      expect(ends.map(({ charge }) => charge.state).sort()).toEqual(["failed", "settled"]);
      expect(ends.map(({ result }) => result.status).sort()).toEqual([200, 402]);
      const paid = ends.find(({ charge }) => charge.state === "settled");
      const unpaid = ends.find(({ charge }) => charge.state === "failed");
      const { amount, transaction } = paid?.charge ?? {};
      const text = `paid 0.00000${amount} USDC in transaction ${transaction}`;
      expect(unpaid?.result.text).toContain(text);
      expect(unpaid?.result.text).not.toContain("not charged");
      expect(unpaid?.charge).toMatchObject({ moved: { amount, transaction } });
      const loser = ends[0] === unpaid ? { gateway, body: "5 twice" } : { gateway: other, body: "9 twice" };
      expect(await loser.gateway.send(payment, { body: loser.body })).toMatchObject({
        status: 402,
        code: "settlement_failed",
        charged: "unknown",
        settlement: { success: false, transaction },
      });
      expect(await listFailed(loser.gateway)).toMatchObject([
        { reason: expect.stringContaining(text), transaction },
      ]);
      expect(await parts.usdc.balanceOf(payTo.address)).toBe(before + BigInt(paid?.charge.amount ?? 0));
      await expectBalance(gateway);
      await expectBalance(other);
    } finally {
      await other.stop();
    }
  });
});

it("Money that another gateway moved by an authorization that charged nothing here is an alert, once", async () => {
  const [gateway, other] = [await startGateway("rpc_url"), await startGateway("rpc_url")];
  onTestFinished(async () => {
    await gateway.stop();
    await other.stop();
  });
  await offerMetered(other);
  const payment = await authorize(gateway);
  const free = await gateway.send(payment, { body: "0 free" });
  expect(await decided(gateway, free)).toMatchObject({ charge: { state: "released" } });
  const { charge } = await decided(other, await other.send(payment, { body: "7 elsewhere" }));
  const message = "an authorization moved money without a charge of this gateway";
  await gateway.restart();
  await expect.poll(() => gateway.jobgate.logs.join("\n")).toContain(message);
  expect(gateway.jobgate.logs.find((line) => line.includes(message))).toContain(charge.transaction);
  const metrics = await (await fetch(`${gateway.jobgate.operatorUrl}/metrics`)).text();
  expect(metrics).toMatch(/^jobgate_payments_contradicted_total\{recorded="released",[^}]*\} 1$/m);
  expect(await askForCall(gateway, free)).toMatchObject({
    state: "succeeded",
    charge: { state: "released", amount: "0", moved: { amount: "7", transaction: charge.transaction } },
    result: { status: 200 },
  });
});

it("A runner of the Node library charges units or a share, and never more than the ceiling", async () => {
  const gateway = await startGateway("rpc_url");
  onTestFinished(() => gateway.stop());
  await gateway.stopRunner();
  startRun(
    (job) => {
      const [charge = ""] = job.body.toString().split(" ");
      job.charge(charge === "quarter" ? { basisPoints: 2_500 } : BigInt(charge));
    },
    { address: gateway.jobgate.runnerAddress },
  );
  for (const [charge, amount] of [
    ["42", 42n],
    ["quarter", AMOUNT / 4n],
    [`${2n * AMOUNT}`, AMOUNT],
  ] as const) {
    const before = await parts.usdc.balanceOf(payTo.address);
    const bought = await gateway.send(await authorize(gateway), { body: `${charge} by the library` });
    expect(await decided(gateway, bought)).toMatchObject({
      state: "succeeded",
      charge: { state: "settled", amount: String(amount) },
    });
    expect(await parts.usdc.balanceOf(payTo.address)).toBe(before + amount);
  }
  await expectBalance(gateway);
});
