import { expect, it } from "vitest";
import { callJson } from "../helpers/operator.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { inDollars, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const JOBS = `
[[jobs]]
job_index = 2
name = "summarise"
mode = "public_paid"
price = "$0.25"
[job_pricing.1]`;

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({
    parts,
    setUp: "rpc_url",
    edit: (config) => inDollars(config).replace("[job_pricing.1]", JOBS),
  }),
);

it("A job at a price in dollars is bought for exactly that many token units, and the journal says so", async () => {
  const payment = await gateway.sign({ job: 2 });
  expect(payment.signed.authorization.value).toBe("250000");
  const expectChanges = await watchLedger(parts, gateway);
  const answer = await gateway.send(payment, { job: 2, body: "one" });
  expect(answer).toMatchObject(ACCEPTED);
  const [call] = await gateway.waitForJobs("one");
  expect(call?.metadata).toMatchObject({ "X-X402-PRICE": "$0.25", "X-X402-PAYMENT-AMOUNT": "250000" });
  await expectChanges({ ...ONE_PAID_JOB, received: 250_000n });
  const { answer: journalled } = await callJson(gateway.jobgate.operatorUrl, "GetPayment", {
    call_id: String(answer.call_id),
  });
  expect(journalled).toMatchObject({ price: "$0.25", price_wei: "", payment: { amount: "250000" } });
});
