import { expect, it } from "vitest";
import { accounts } from "../helpers/accounts.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { inDollars, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const JOBS = `
[[jobs]]
job_index = 2
name = "summarise"
mode = "public_paid"
price = "$0.25"
[[jobs]]
job_index = 3
name = "translate"
mode = "public_paid"
price = "$0.25"
[job_pricing.1]`;
const AUTHOR = accounts.stranger.address;

const parts = startBeforeAll(startPaidParts);
const gateway = startBeforeAll(() =>
  startPaidGateway({ parts, setUp: "rpc_url", edit: (config) => withAuthor(inDollars(config)) }),
);

/** Adds the token a second time: "translate" is paid to its author. */
function withAuthor(config: string): string {
  const [start, end] = [config.indexOf("[[x402.accepted_tokens]]"), config.indexOf("[job_pricing.1]")];
  const token = config
    .slice(start, end)
    .replace(/^pay_to = .*$/m, `pay_to = "${AUTHOR}"\njobs = ["translate"]`);
  return (config.slice(0, end) + token + config.slice(end)).replace("[job_pricing.1]", JOBS);
}

it("A job is paid to the account of the token that names it, and the other jobs are not", async () => {
  const received = async () => [
    await parts.usdc.balanceOf(accounts.payTo.address),
    await parts.usdc.balanceOf(AUTHOR),
  ];
  const [seller = 0n, author = 0n] = await received();
  for (const job of [2, 3]) {
    const payment = await gateway.sign({ job });
    expect(await gateway.send(payment, { job, body: String(job) })).toMatchObject(ACCEPTED);
    await gateway.waitForJobs(String(job));
  }
  expect(await received()).toEqual([seller + 250_000n, author + 250_000n]);
});

it("A payment that is signed for the account of another job is refused, and nothing moves", async () => {
  const payment = await gateway.sign({ job: 2 });
  expect(await gateway.send(payment, { job: 3 })).toMatchObject({ status: 402, code: "payment_mismatch" });
});
