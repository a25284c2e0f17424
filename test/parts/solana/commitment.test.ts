import { beforeEach, expect, it } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { startEmbeddedJobgate } from "../../helpers/embedded-jobgate.ts";
import { callJson } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { startSolanaParts, startSolanaShop } from "./harness.ts";

const AFTER = 2;
let store: Store;
const parts = startBeforeAll(startSolanaParts);
const shop = startBeforeAll(() =>
  startSolanaShop(parts, {
    more: `[[jobs]]
job_index = ${AFTER}
mode = "public_paid"
price = "$0.01"
charge = "after"
max_run_secs = 20
`,
    start: ({ config }) =>
      startEmbeddedJobgate({
        config,
        wrapStore(opened) {
          store = opened;
          return opened;
        },
      }),
  }),
);

beforeEach(() => {
  // What landed before is finalized, and what lands from now on is not.
  parts.cluster.passSlots(2);
  parts.cluster.finalizedLag = 1;
  parts.cluster.passSlots(1);
});

const early = async () =>
  (await store.listUndecided({ state: "early", limit: 10 })).map(({ callId }) => callId);

/** Returns a payment as operators see it. */
async function paymentOf(callId: number | undefined) {
  const { answer } = await callJson(shop.jobgate.operatorUrl, "GetPayment", { call_id: String(callId) });
  return (answer as { readonly payment: { readonly state: string; readonly reason?: string } }).payment;
}

/** Returns the number of alerts, as the metric and the log have it. */
async function alerts(): Promise<readonly number[]> {
  const { text } = await metricsOf();
  const counted = /^jobgate_payments_contradicted_total\{[^}]*recorded="settled"[^}]*\} (\d+)$/m.exec(text);
  const logged = shop.jobgate.logs.filter((line) =>
    line.includes("the chain no longer has a payment whose job was sold"),
  );
  return [Number(counted?.[1] ?? 0), logged.length];
}

async function metricsOf() {
  const response = await fetch(`${shop.jobgate.operatorUrl}/metrics`);
  return { text: await response.text() };
}

it("A job is sold in a confirmed block, and its payment is watched until the block is finalized", async () => {
  const before = await alerts();
  const ran = shop.runner.calls.length;
  const answer = await shop.send(await shop.sign());
  expect(answer).toMatchObject({ status: 202 });
  await shop.runner.waitFor(ran + 1);
  expect(await early()).toEqual([answer.call_id]);
  parts.cluster.finalizedLag = 0;
  await until(async () => (await early()).length === 0, { waitMs: 30_000 });
  expect(await paymentOf(answer.call_id)).toMatchObject({ state: "PAYMENT_STATE_SETTLED", reason: "" });
  expect(await alerts()).toEqual(before);
});

it.each([0, AFTER])(
  "A sold payment that fails on the fork that wins is an alert, and nothing is sold or charged twice (job %i)",
  async (job) => {
    const [counted = 0, logged = 0] = await alerts();
    const ran = shop.runner.calls.length;
    const payment = await shop.sign(undefined, 2, job);
    const answer = await shop.send(payment, { job });
    expect(answer).toMatchObject({ status: 202 });
    await until(async () => (await early()).length === 1);
    expect(await early()).toEqual([answer.call_id]);
    const settled = shop.facilitator.counts.settle;
    parts.cluster.fork("fails");
    parts.cluster.finalizedLag = 0;
    await until(async () => (await early()).length === 0, { waitMs: 30_000 });
    expect(await paymentOf(answer.call_id)).toMatchObject({
      state: "PAYMENT_STATE_SETTLED",
      reason:
        "sold before its block was final, and the block did not become final: the transaction failed, and moved nothing",
    });
    expect(await alerts()).toEqual([counted + 1, logged + 1]);
    expect(await shop.send(payment, { job })).toMatchObject({ status: 202, call_id: answer.call_id });
    expect(shop.runner.calls.length).toBe(ran + 1);
    expect(shop.facilitator.counts.settle).toBe(settled);
  },
);
