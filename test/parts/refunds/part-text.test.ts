import { afterEach, expect, test, vi } from "vitest";
import { runHere } from "../../commands/operator-commands.ts";
import { startOperator, TOKEN } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne, paidCall, paymentIntent } from "../../store/store-fixtures.ts";

const jobgate = startBeforeAll(() => startOperator({ token: TOKEN }));
afterEach(() => vi.unstubAllEnvs());

const run = (...args: string[]) => {
  vi.stubEnv("JOBGATE_OPERATOR_TOKEN", TOKEN);
  return runHere(...args, "--target", jobgate.operator.address);
};

test("A job that is done says how to give its money back", async () => {
  const { store } = jobgate;
  const intent = paymentIntent(3);
  await store.beginPayment(intent, paidCall());
  await store.settlePayment(intent.key, "{}");
  const done = await claimOne(store);
  await store.ack(done);
  // The first command of this process, because each command adds the texts of the parts to all later commands.
  const { stdout } = await run("jobs", "show", String(done.callId));
  expect(stdout.split("\n\n")[2]).toMatch(
    /^jobgate pays back only jobs that failed\. To give this money back, send 3264000 base units of USDC to 0x/,
  );
});

test("The totals show the refunds of dead JobCalls, and the status says which command lists them", async () => {
  expect((await run("payments", "totals")).stdout).toMatch(/^money for dead ones +kept 0, not charged 0$/m);
  const { store } = jobgate;
  let failed = 0;
  for (const number of [1, 2]) {
    const intent = paymentIntent(number, { onFailure: "refund" });
    await store.beginPayment(intent, paidCall());
    await store.settlePayment(intent.key, "{}");
    const call = await claimOne(store);
    failed = call.callId;
    await store.fail(call, "no good");
  }
  expect((await run("payments", "totals")).stdout).toMatch(
    /^money for dead ones +kept 0, not charged 0, owed 2 \(6528000 base units of USDC\)$/m,
  );
  const { stdout } = await run("status");
  expect(stdout).toMatch(/2 refunds owed: .*refunds list --state owed$/m);
  expect(stdout).not.toContain("refund_failed");
  expect((await run("jobs", "show", String(failed))).stdout).not.toContain("give this money back");
});

test("Events of refunds can be selected", async () => {
  const { stdout } = await runHere("tail", "--help");
  expect(stdout.replaceAll(/\s+/g, " ")).toContain('"dropped", "payment-decided", "refund-changed", env');
});
