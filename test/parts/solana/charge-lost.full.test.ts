import { expect, it } from "vitest";
import { callJson } from "../../helpers/operator.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { startSolanaParts, startSolanaShop } from "./harness.ts";

const parts = startBeforeAll(startSolanaParts);
/** Its payments last for under a minute, and its blockhashes end as soon as the cluster passes slots. */
const JOB = 2;
const shop = startBeforeAll(() =>
  startSolanaShop(parts, {
    more: `[[jobs]]
job_index = ${JOB}
mode = "public_paid"
price = "$0.01"
charge = "after"
max_run_secs = 1
`,
  }),
);

it("A charge that did not land is lost once its blockhash has expired, and reported", async () => {
  const { cluster } = parts;
  const received = await cluster.balanceOf(parts.seller, parts.mint);
  const bought = await shop.sign(undefined, undefined, JOB);
  cluster.dropsTransactions = true;
  const { call_id } = await shop.send(bought, { job: JOB });
  const read = async () => {
    const { answer } = await callJson(shop.jobgate.operatorUrl, "GetPayment", { call_id: String(call_id) });
    return (answer as { readonly payment: { readonly state: string; readonly reason?: string } }).payment;
  };
  await until(() => shop.facilitator.counts.settle > 0);
  expect((await read()).state).toMatch(/settling/i);
  cluster.passSlots(200);
  await until(async () => /failed/i.test((await read()).state));
  expect((await read()).reason).toContain("blockhash expired");
  expect(await cluster.balanceOf(parts.seller, parts.mint)).toBe(received);
  expect(shop.jobgate.logs.join("\n")).toContain("a job was done and could not be charged");
});
