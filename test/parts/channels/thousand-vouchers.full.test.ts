import { expect, it } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { howMany } from "../../helpers/how-many.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import {
  type Bought,
  channelOf,
  KEPT,
  newPayer,
  PRICE,
  RETURNED,
  startChannelParts,
  startChannelShop,
} from "./harness.ts";

const METERED = 2;
const JOBS = [RETURNED, KEPT, METERED] as const;
const BUYERS = 4;
const CALLS_EACH = howMany(80, 250);
/** Prices of a deposit: more than a buyer's calls cost. */
const DEPOSITED = 300;
/** One of so many calls of each job fails. */
const FAILS_EVERY = 9;

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    keys: `claim_every_secs = 1\nmin_deposit = ${DEPOSITED}`,
    jobs: `
[[jobs]]
job_index = ${METERED}
mode = "public_paid"
price = "$0.001"
charge = "used"
`,
    handle({ body }) {
      const [, text = "", units] = Buffer.from(body).toString().split(" ");
      if (text === "fails") throw new Fail("no ink");
      return { body, ...(units !== undefined && { charge: BigInt(units) }) };
    },
  }),
);

/** Returns the job and the body of a buyer's call, and what the call costs in the end. */
function callOf(buyer: number, i: number) {
  const job = JOBS[i % JOBS.length] as number;
  const isFailed = i % FAILS_EVERY < JOBS.length && i >= FAILS_EVERY;
  if (isFailed) return { job, body: `${buyer}/${i} fails`, cost: job === KEPT ? PRICE : 0n };
  const units = BigInt(1 + ((i * 37) % Number(PRICE)));
  return job === METERED
    ? { job, body: `${buyer}/${i} uses ${units}`, cost: units }
    : { job, body: `${buyer}/${i} done`, cost: PRICE };
}

/** Begins to buy a buyer's calls: the first makes the deposit. */
async function startBuyer(buyer: number) {
  const payer = await newPayer(parts);
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer });
  const callIds: number[] = [];
  let cost = 0n;
  async function buy(i: number): Promise<Bought> {
    const call = callOf(buyer, i);
    let bought = await shop.buy(fetch, call.body, call.job);
    // The client signs once more by itself; the call before may have failed in between.
    for (let again = 0; bought.status === 402 && again < 5; again++)
      bought = await shop.buy(fetch, call.body, call.job);
    expect(bought).toMatchObject({ status: 202, code: undefined });
    callIds.push(bought.callId as number);
    cost += call.cost;
    return bought;
  }
  const channelId = channelOf(await buy(0));
  return {
    async buyRest() {
      for (let i = 1; i < CALLS_EACH; i++) await buy(i);
      return { payer, scheme, cost, callIds, channelId };
    },
  };
}

it("Hundreds of vouchers on three jobs are each one call, and buyers pay what their calls cost and not more", async () => {
  // Deposits that share a facilitator wait for each other's transactions: vouchers only are bought at once.
  const buyers = [];
  for (let buyer = 0; buyer < BUYERS; buyer++) buyers.push(await startBuyer(buyer));
  const bought = await Promise.all(buyers.map(({ buyRest }) => buyRest()));
  const callIds = bought.flatMap((of) => of.callIds);
  expect(new Set(callIds).size).toBe(BUYERS * CALLS_EACH);
  await expect
    .poll(() => new Set(shop.runner.calls.map(({ body }) => Buffer.from(body).toString())).size)
    .toBe(BUYERS * CALLS_EACH);
  for (const { payer, scheme, cost, channelId } of bought) {
    const claimed = async () => (await readChannels(parts.anvil, "channels", channelId))[1];
    await expect.poll(claimed).toBe(cost);
    const deposited = BigInt(DEPOSITED) * PRICE;
    expect(await scheme.refund(shop.urlOf(KEPT))).toMatchObject({ amount: String(deposited - cost) });
    expect(await parts.usdc.balanceOf(payer.address)).toBe(1_000_000n - cost);
  }
  const sold = bought.reduce((sum, { cost }) => sum + cost, 0n);
  await expect.poll(() => parts.usdc.balanceOf(shop.payTo.address)).toBe(sold);
});
