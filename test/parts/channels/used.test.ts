import { expect, it } from "vitest";
import { Fail } from "../../../src/runner/job.ts";
import { channelClient, readChannels } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { until } from "../../helpers/until.ts";
import { channelOf, DEPOSIT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const METERED = 2;
const AFTER = 3;

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    jobs: `
[[jobs]]
job_index = ${METERED}
mode = "public_paid"
price = "$0.001"
charge = "used"
answer = "result"
[[jobs]]
job_index = ${AFTER}
mode = "public_paid"
price = "$0.001"
charge = "after"
answer = "result"
`,
    handle({ body }) {
      const text = Buffer.from(body).toString();
      if (text === "fails") throw new Fail("no ink");
      return { body, ...(text.startsWith("uses ") && { charge: BigInt(text.slice("uses ".length)) }) };
    },
  }),
);

async function newBuyer() {
  const payer = await newPayer(parts);
  return { payer, ...channelClient({ anvil: parts.anvil, payer }) };
}

const claimedOf = (channelId: string) =>
  readChannels(parts.anvil, "channels", channelId).then(([, claimed]) => claimed);

it("A metered call is charged what it used, and the rest of its voucher is paid back with the deposit", async () => {
  const { fetch, scheme } = await newBuyer();
  const first = await shop.buy(fetch, "uses 300", METERED);
  expect(first).toMatchObject({ status: 200, settlement: { extra: { chargedAmount: "300" } } });
  const second = await shop.buy(fetch, "uses 250", METERED);
  // The next voucher adds to the one before, whatever that was charged.
  expect(second.settlement).toMatchObject({
    transaction: "",
    extra: { chargedAmount: "250", channelState: { chargedCumulativeAmount: String(2n * PRICE) } },
  });
  expect(shop.runner.calls.map(({ metadata }) => metadata["X-X402-PAYMENT-SCHEME"])).toEqual([
    "upto",
    "upto",
  ]);
  await until(async () => (await claimedOf(channelOf(first))) === 550n);
  expect(await scheme.refund(shop.urlOf(METERED))).toMatchObject({
    success: true,
    amount: String(DEPOSIT - 550n),
  });
});

it("A call that is charged after it ran costs nothing if it fails, and its voucher buys the next one", async () => {
  const { fetch, scheme } = await newBuyer();
  const first = await shop.buy(fetch, "done", AFTER);
  expect(first).toMatchObject({ status: 200 });
  expect((await shop.buy(fetch, "fails", AFTER)).status).toBeGreaterThanOrEqual(400);
  expect(await shop.buy(fetch, "done again", AFTER)).toMatchObject({
    status: 200,
    settlement: { extra: { channelState: { chargedCumulativeAmount: String(2n * PRICE) } } },
  });
  await until(async () => (await claimedOf(channelOf(first))) === 2n * PRICE);
  expect(await scheme.refund(shop.urlOf(AFTER))).toMatchObject({ amount: String(DEPOSIT - 2n * PRICE) });
});
