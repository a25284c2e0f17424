import { expect, test } from "vitest";
import { parseDollars } from "../../../src/core/amounts.ts";
import type { RulePricing } from "../../../src/parts/request-prices/config.ts";
import { boundsOf, parseMeasure, type Rule } from "../../../src/parts/request-prices/rule.ts";
import { accounts } from "../../helpers/accounts.ts";
import { requestOffer, signV2Payment } from "../../helpers/clients.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startTestGateway } from "../../x402/gateway-harness.ts";
import { JOB, USDC } from "../../x402/payments.ts";

const JSON_BODY = { "content-type": "application/json" };
const usd = (text: string) => parseDollars(text)?.amount ?? 0n;

function priceByNumber(): RulePricing {
  const measure = parseMeasure("json:/n");
  if (measure === undefined) throw new Error("no measure");
  const byRule: Rule = {
    ...{ kind: "each", measure, base: 0n },
    ...{ each: usd("$0.002"), min: usd("$0.01"), max: usd("$5") },
  };
  const { from, upTo } = boundsOf(byRule);
  return {
    ...{ rule: "by n", headers: [], byRule },
    from: { unit: "usd", amount: from },
    upTo: { unit: "usd", amount: upTo },
  };
}

const gateway = startBeforeAll(() =>
  startTestGateway({
    config: {
      jobs: [{ ...JOB, price: priceByNumber() }],
      acceptedTokens: [{ ...USDC, markupBps: 0, currency: "USD" }],
      jobPolicies: [],
      maxBodyBytes: 65_536,
      limits: { maxUnpaidPerSecondPerClient: 100_000, maxVerifiesPerClient: 8, maxVerifies: 64 },
    },
  }),
);

const DEEP = `${"[".repeat(31_000)}${"]".repeat(31_000)}`;
const largeBody = (n: number) => `{"n":${n},"deep":${DEEP}}`;

test("Large bodies without a payment are read for their price in a tenth of the time, and open offers stay payable", async () => {
  const body = largeBody(5);
  const { v2: offer } = await requestOffer(gateway.jobUrl(), body, JSON_BODY);
  const { headers } = await signV2Payment({ offer, account: accounts.payer });
  const post = (text: string, more = {}) => gateway.post({ ...JSON_BODY, ...more }, { body: text });
  let refused: Awaited<ReturnType<typeof post>> | undefined;
  for (let i = 0; i < 500 && refused === undefined; i++) {
    const answer = await post(largeBody(i));
    if (answer.status === 429) refused = answer;
    else expect(answer.status).toBe(402);
  }
  expect(refused?.body).toMatchObject({
    error: expect.stringMatching(/^Bodies that take long to read for their price have used up their time/),
    ...{ code: "rate_limited", charged: false, retryable: true },
  });
  expect((await post('{"n":5}')).status).toBe(402);
  // The facilitator of this gateway does not answer.
  expect(await post(body, headers)).toMatchObject({ status: 503, body: { code: "facilitator_unavailable" } });
});
