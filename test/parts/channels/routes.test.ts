import { expect, it } from "vitest";
import { channelClient } from "../../helpers/channels.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { KEPT, newPayer, PRICE, startChannelParts, startChannelShop } from "./harness.ts";

const parts = startBeforeAll(startChannelParts);
const shop = startBeforeAll(() =>
  startChannelShop(parts, {
    jobs: `[[jobs]]
job_index = 7
route = "GET /weather/{city}"
mode = "public_paid"
price = "$0.003"
answer = "result"
`,
    handle: () => ({ body: Buffer.from("sunny") }),
  }),
);

it("One channel buys jobs at routes and at their ids, each for its price, and is paid back the rest", async () => {
  const { fetch, scheme } = channelClient({ anvil: parts.anvil, payer: await newPayer(parts) });
  const url = `${shop.jobgate.x402Url}/weather/Paris`;
  const settlements = shop.facilitator.counts.settle;
  for (const city of ["Paris", "Rome"]) {
    const answer = await fetch(`${shop.jobgate.x402Url}/weather/${city}?units=metric`);
    expect([answer.status, await answer.text()]).toEqual([200, "sunny"]);
  }
  expect(await shop.buy(fetch, "one", KEPT)).toMatchObject({ status: 202 });
  expect(
    shop.facilitator.calls.slice(settlements).map(({ paymentPayload }) => paymentPayload?.payload.type),
  ).not.toContain("voucher");
  // Ten prices of the first job were deposited.
  await expect
    .poll(() => scheme.refund(url), { timeout: 10_000 })
    .toMatchObject({
      success: true,
      amount: String(10n * 3n * PRICE - 7n * PRICE),
    });
});
