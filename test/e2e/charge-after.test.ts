import { decodePaymentResponseHeader } from "@x402/core/http";
import { describe, expect, it } from "vitest";
import { type JobCall, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import { AUTHORIZATION_ENDED } from "../../src/store/rules/charges.ts";
import { accounts } from "../helpers/accounts.ts";
import { requestOffer, signV1Payment } from "../helpers/clients.ts";
import { startRunner } from "../helpers/runner.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { expectBalance } from "./ledger.ts";
import { askForCall, decided, newPayer, startMeteredParts } from "./metered.ts";
import { type Answer, paysByX402, startPaidGateway } from "./paid-gateway.ts";
import { AMOUNT } from "./paid-parts.ts";
import { refundAccount } from "./refund-account.ts";

/** Time before the end at which a job that runs is ended. */
const MARGIN_SECS = 10;
/** Time for which a payment must last besides that. */
const MAX_RUN_SECS = 1;

const parts = startBeforeAll(startMeteredParts);
const refunds = startBeforeAll(async () => {
  const account = await refundAccount(parts);
  await parts.usdc.mint(account.address, AMOUNT);
  return { ...account, stop: () => Promise.resolve() };
});
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    handle({ body }) {
      const text = Buffer.from(body).toString();
      if (text.startsWith("fail")) throw new Fail("no ink");
      return { body: Buffer.from(`result of ${text}`) };
    },
    edit: (config) => `${config.replace("[x402]\n", `[x402]\nsettle_margin_secs = ${MARGIN_SECS}\n`)}
[[jobs]]
job_index = 0
mode = "public_paid"
charge = "after"
max_run_secs = ${MAX_RUN_SECS}
[x402.refunds]
signer = { private_key = "${refunds.owner.privateKey}" }
max_fee_per_gas_gwei = "100"
`,
  }),
);
const received = () => parts.usdc.balanceOf(accounts.payTo.address);

const urlOf = ({ call_id }: Pick<Answer, "call_id">) => `${gateway.jobgate.x402Url}/x402/calls/${call_id}`;

describe("A job that is charged after it ran", () => {
  it("has an offer of scheme exact, whose payment outlives the run and the settlement", async () => {
    const { v2 } = await requestOffer(gateway.urlOf());
    expect(v2.accepts).toMatchObject([
      { scheme: "exact", maxTimeoutSeconds: 300 + MAX_RUN_SECS + MARGIN_SECS },
    ]);
    const validBefore = String((await parts.chainTimeSecs()) + MARGIN_SECS);
    expect(await gateway.send(await gateway.sign({ authorization: { validBefore } }))).toMatchObject({
      status: 402,
      code: "payment_mismatch",
      charged: false,
    });
  });

  it.each(["x402", "blueprintevm", "mcp", "a2a"] as const)(
    "is paid once it succeeded (%s)",
    async (protocol) => {
      const before = await received();
      const { sign, send } = gateway.at(protocol);
      const payment = await sign();
      const body = `after by ${protocol}`;
      const bought = await send(payment, { body });
      expect(bought).toMatchObject({ status: 202 });
      // Over MCP the answer waits for the job.
      if (!protocol.endsWith("mcp")) {
        expect(bought.payment).toBe("authorized");
        expect([bought.settlement, bought.paymentReceipt]).toEqual([undefined, undefined]);
      }
      expect(await decided(gateway, bought)).toMatchObject({
        state: "succeeded",
        charge: { state: "settled", amount: String(AMOUNT), transaction: expect.stringMatching(/^0x/) },
        result: { status: 200, text: `result of ${body}` },
      });
      expect(await received()).toBe(before + AMOUNT);
      const headers = { authorization: `Bearer ${bought.access_token}` };
      const result = await fetch(`${urlOf(bought)}/result`, { headers });
      const settlement = decodePaymentResponseHeader(result.headers.get("payment-response") ?? "");
      expect(settlement).toMatchObject({ success: true, payer: accounts.payer.address.toLowerCase() });
      const again = await send(payment, { body });
      expect(again).toMatchObject({ status: 202, call_id: bought.call_id });
      if (paysByX402(protocol)) expect(again.settlement).toEqual(settlement);
      else expect(again.paymentReceipt).toMatchObject({ reference: settlement.transaction });
      expect(await received()).toBe(before + AMOUNT);
      expect(gateway.jobsWith(body)).toHaveLength(1);
      await expectBalance(gateway);
    },
  );

  it("is bought by clients of version 1", async () => {
    const before = await received();
    const { v1 } = await requestOffer(gateway.urlOf());
    const { headers } = await signV1Payment({ offer: v1, account: accounts.payer });
    const bought = await gateway.send({ headers }, { body: "by version 1" });
    expect(bought).toMatchObject({ status: 202, payment: "authorized" });
    expect(await decided(gateway, bought)).toMatchObject({ charge: { state: "settled" } });
    expect(await received()).toBe(before + AMOUNT);
  });

  it("gives its result and its settlement to a client that waits", async () => {
    const { headers } = await gateway.sign();
    const response = await fetch(gateway.urlOf(), {
      method: "POST",
      headers: { ...headers, prefer: "wait=30" },
      body: "waited for",
    });
    expect([response.status, await response.text()]).toEqual([200, "result of waited for"]);
    const settlement = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
    expect(settlement).toMatchObject({ success: true, transaction: expect.stringMatching(/^0x/) });
  });

  it("is not charged when it fails, and cannot be retried", async () => {
    const before = await received();
    const failing = await gateway.sign();
    const bought = await gateway.send(failing, { body: "fail" });
    expect(await decided(gateway, bought)).toMatchObject({
      state: "failed",
      charge: { state: "released", amount: "0" },
      result: { status: 410 },
    });
    expect(await gateway.send(failing, { body: "fail" })).toMatchObject({ status: 202, payment: "released" });
    const payment = await gateway.sign();
    const headers = { ...payment.headers, prefer: "wait=30" };
    expect(await gateway.send({ headers }, { body: "fail" })).toMatchObject({
      status: 410,
      code: "call_failed",
      charged: false,
      retryable: false,
    });
    expect(await received()).toBe(before);
    const answer = await fetch(`${gateway.jobgate.operatorUrl}/jobgate.v1.OperatorService/RetryDeadLetters`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ callIds: [bought.call_id] }),
    });
    expect(await answer.json()).toMatchObject({ statuses: ["DEAD_LETTER_STATUS_REFUND_BEGUN"] });
    await expectBalance(gateway);
  });

  it("is an alert if its payment moves although the job failed, and its buyer is paid back", async () => {
    const payment = await gateway.sign();
    const bought = await gateway.send(payment, { body: "fail, and moved" });
    expect(await decided(gateway, bought)).toMatchObject({ charge: { state: "released", amount: "0" } });
    await parts.usdc.transferWithAuthorization(payment.signed);
    await gateway.restart();
    const message = "an authorization moved money without a charge of this gateway";
    await expect.poll(() => gateway.jobgate.logs.join("\n")).toContain(message);
    expect(await askForCall(gateway, bought)).toMatchObject({
      charge: { state: "released", amount: "0", moved: { amount: String(AMOUNT) } },
    });
    await expect
      .poll(() => askForCall(gateway, bought))
      .toMatchObject({ refund: { state: "refunded", amount: String(AMOUNT) } });
    expect(await refunds.transfers()).toMatchObject([
      { to: accounts.payer.address.toLowerCase(), value: AMOUNT },
    ]);
    await expectBalance(gateway);
  });

  it("gives no result while its charge is not certain, nor for a charge that was refused, whose payer then pays before", async () => {
    const account = await newPayer(parts, 2n);
    const before = await received();
    const payment = await gateway.sign({ account });
    let sent: Promise<Answer> | undefined;
    const settling = gateway.duringSettle(async () => {
      expect(await askForCall(gateway, (await sent) as Answer)).toMatchObject({
        state: "running",
        result: { status: 503 },
      });
      const headers = { ...payment.headers, prefer: "wait=1" };
      expect(await gateway.send({ headers }, { body: "cancelled" })).toMatchObject({
        status: 503,
        code: "settlement_unknown",
        charged: "unknown",
      });
      await parts.usdc.cancelAuthorization(account, payment.signed.authorization.nonce);
    });
    sent = gateway.send(payment, { body: "cancelled" });
    await settling;
    const bought = await sent;
    expect(await decided(gateway, bought)).toMatchObject({
      charge: { state: "failed" },
      result: { status: 402, text: expect.stringContaining("settlement_failed") },
    });
    expect(await gateway.send(payment, { body: "cancelled" })).toMatchObject({
      status: 402,
      code: "settlement_failed",
      settlement: { success: false, errorReason: "settlement_failed", transaction: "" },
    });
    expect(await gateway.send(await gateway.sign({ account }))).toMatchObject({
      status: 402,
      code: "payment_invalid",
      charged: false,
    });
    expect(await received()).toBe(before);
    const paidBefore = await gateway.send(await gateway.sign({ account, job: 1 }), { job: 1 });
    expect(paidBefore).toMatchObject({ status: 202, settlement: { success: true } });
    await expectBalance(gateway);
  });

  it("is ended, and not charged, if it still runs when its payment is about to end", async () => {
    const before = await received();
    gateway.runner.kill();
    const runner = await startRunner({ address: gateway.jobgate.runnerAddress, handle: "leave" });
    // A busy machine may take all but the second of the run until it arrives.
    const validBefore = String((await parts.chainTimeSecs()) + MARGIN_SECS + MAX_RUN_SECS + 7);
    const payment = await gateway.sign({ authorization: { validBefore } });
    const bought = await gateway.send(payment, { body: "outlasts its payment" });
    expect(bought).toMatchObject({ status: 202 });
    const [{ callId, leaseToken }] = (await runner.waitFor(1)) as [JobCall];
    const lease = { callId, leaseToken };
    const units = { amount: { case: "units", value: "1" } } as const;
    await expect(runner.ack({ acks: [{ ...lease, charge: units }] })).rejects.toThrow("expected no charge");
    expect(await decided(gateway, bought)).toMatchObject({
      state: "failed",
      reason: AUTHORIZATION_ENDED,
      charge: { state: "released", amount: "0" },
      result: { status: 410 },
    });
    expect((await runner.ack({ acks: [lease] })).statuses).toEqual([LeaseStatus.LEASE_LOST]);
    runner.kill();
    await gateway.replaceRunner();
    expect(await received()).toBe(before);
    await expectBalance(gateway);
  });
});
