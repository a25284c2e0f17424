import { afterEach, expect, test, vi } from "vitest";
import { runHere } from "../../commands/operator-commands.ts";
import { callJson, startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));
afterEach(() => vi.unstubAllEnvs());

const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere(...args, "--target", jobgate.operator.address);
};
const ask = (request: object) =>
  callJson(jobgate.url, "ListPaymentAlerts", request, { authorization: `Bearer ${TOKEN}` });

test("The status names sold payments that a fork took and charges that were lost, and the command lists them", async () => {
  expect((await run("payments", "alerts")).stderr).toContain("There are none.");
  expect((await run("status")).stdout).not.toContain("alerts");
  const { store } = jobgate;
  for (const number of [1, 2]) {
    const sold = paymentIntent(number);
    await store.beginPayment(sold, paidCall());
    await store.settlePayment(sold.key, "{}", "7", undefined, true);
    await claimOne(store);
    if (number === 1) await store.contradictPayment(sold.key, "a fork took it");
  }
  const { stdout: one } = await run("status");
  expect(one).toMatch(
    /needs you +1 sold payment is not on the chain any more, or never was: .*payments alerts --kind not_paid$/m,
  );
  await store.contradictPayment(paymentIntent(2).key, "a fork took it");
  const used = paymentIntent(3, { amount: "1001", charge: "used" });
  await store.beginPayment(used, paidCall());
  await store.ack(await claimOne(store), undefined, { units: "5" });
  await store.failPayment(used.key, "{}", "the payer cancelled");
  const { stdout } = await run("status");
  expect(stdout).toMatch(/2 sold payments are not on the chain any more.*--kind not_paid$/m);
  expect(stdout).toMatch(/1 job was done and could not be charged: .*payments alerts --kind charge_lost$/m);
  const { stdout: listed } = await run("payments", "alerts", "--kind", "charge_lost");
  expect(listed).toMatch(/^KIND +CALL +AT +AMOUNT +JOB +NETWORK +PAYER +REASON\n/);
  expect(listed).toMatch(/^charge_lost +3 .* 5 base units of USDC .* the payer cancelled$/m);
  expect(listed).not.toContain("not_paid");
  const { stdout: json } = await run("payments", "alerts", "--json", "--limit", "1");
  expect(JSON.parse(json)).toMatchObject({ kind: "PAYMENT_ALERT_KIND_CHARGE_LOST", call_id: "3" });
});

test("The API refuses an unknown kind and an unknown field", async () => {
  expect((await ask({ kind: 9 })).answer.message).toContain("kind: expected a PaymentAlertKind.");
  expect((await ask({ kinds: 1 })).status).toBe(400);
});
