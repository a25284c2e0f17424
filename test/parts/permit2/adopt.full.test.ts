import { beforeAll, expect, it, onTestFinished } from "vitest";
import { createOperatorClient } from "../../../src/commands/operator-client.ts";
import { startMeteredGateway, startMeteredParts } from "../../e2e/metered.ts";
import { withPermit2 } from "../../e2e/paid-config.ts";
import { type PaidGateway, startPaidGateway } from "../../e2e/paid-gateway.ts";
import { AMOUNT } from "../../e2e/paid-parts.ts";
import { accounts } from "../../helpers/accounts.ts";
import { MULTICALL3, sendTransaction } from "../../helpers/anvil.ts";
import { requestOffer, signMeteredPayment, signPermit2Payment } from "../../helpers/clients.ts";
import { approvePermit2 } from "../../helpers/permit2.ts";
import { batchCall, settleCall } from "../../helpers/permit2-calls.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";

const parts = startBeforeAll(startMeteredParts);
const SIGNATURE = { by: "ada", note: "copy restored" };
beforeAll(() => approvePermit2({ anvil: parts.anvil, token: parts.usdc.address, account: accounts.payer }));

const operatorOf = ({ jobgate }: PaidGateway) =>
  createOperatorClient({ address: { url: jobgate.operatorUrl } });

async function signPermit(gateway: PaidGateway) {
  const [{ v2: offer }, now] = await Promise.all([requestOffer(gateway.urlOf()), parts.chainTimeSecs()]);
  const deadline = String(Math.max(now, Math.floor(Date.now() / 1000)) + 300);
  return signPermit2Payment({ offer, account: accounts.payer, option: 1, permit: { deadline } });
}

it("Two Permit2 payments that one transaction of a contract made are adopted, once it has its confirmations, and each buys one run", async () => {
  const gateway = await startPaidGateway({ parts, setUp: "rpc_url", edit: withPermit2, confirmations: 3 });
  onTestFinished(() => gateway.stop());
  const operator = operatorOf(gateway);
  const payments = [await signPermit(gateway), await signPermit(gateway)];
  const { callData } = batchCall(payments.map(settleCall));
  const { transactionHash: transaction } = await sendTransaction({
    anvil: parts.anvil,
    from: accounts.stranger,
    to: MULTICALL3,
    data: callData,
  });
  const early = operator.adoptPayment({ transaction, ...SIGNATURE });
  await expect(early).rejects.toThrow("1 of 3 confirmations");
  await parts.anvil.client.mine({ blocks: 2 });
  for (const payment of payments)
    expect(await gateway.send(payment)).toMatchObject({ status: 409, code: "authorization_used" });
  const adopted = await operator.adoptPayment({ transaction, ...SIGNATURE });
  expect(adopted.payments.map(({ amount }) => amount)).toEqual([String(AMOUNT), String(AMOUNT)]);
  for (const [i, payment] of payments.entries()) {
    const sent = () => gateway.send(payment, { body: `permit ${i}` });
    const first = await sent();
    expect(first).toMatchObject({ status: 202, settlement: { transaction } });
    expect(await sent()).toMatchObject({ status: 202, call_id: first.call_id });
    expect(await gateway.send(payment, { body: "other" })).toMatchObject({ status: 409 });
    await gateway.waitForJobs(`permit ${i}`);
  }
  expect(gateway.delivered).toHaveLength(2);
  await expect(operator.adoptPayment({ transaction, ...SIGNATURE })).rejects.toThrow("in the journal");
});

it("A metered payment is not adopted", async () => {
  const [seller, other] = [
    await startMeteredGateway({ parts, setUp: "rpc_url" }),
    await startMeteredGateway({ parts, setUp: "rpc_url" }),
  ];
  for (const gateway of [seller, other]) onTestFinished(() => gateway.stop());
  const { v2: offer } = await requestOffer(seller.urlOf());
  const payment = await signMeteredPayment({ offer, account: accounts.payer });
  expect(await seller.send(payment, { body: "all" })).toMatchObject({ status: 202 });
  const charged = async () => (await operatorOf(seller).listPayments({})).payments[0]?.transaction;
  await expect.poll(charged).toMatch(/^0x/);
  const transaction = (await charged()) ?? "";
  await expect(operatorOf(other).adoptPayment({ transaction, ...SIGNATURE })).rejects.toThrow(
    "metered payment",
  );
});
