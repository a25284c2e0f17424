import { describe, expect, it, test } from "vitest";
import { optionText } from "../../../src/x402/jobs/seller.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { settlementOption } from "../../../src/x402/prices/price-route.ts";
import { JobUrls } from "../../../src/x402/wire/paths.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PUBLIC_URL, startAnotherGateway, startTestGateway } from "../gateway-harness.ts";
import { OTHER_METHOD, OTHER_USDC, USDC } from "../payments.ts";

interface Answer {
  readonly settlement_options: readonly { readonly transfer_method?: string }[];
}

const gateway = startBeforeAll(startTestGateway);

describe("The price route", () => {
  it("Shows the price to anyone, in wei and in every token", async () => {
    const response = await fetch(`${gateway.jobUrl()}/price`);
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        service_id: 1,
        job_index: 0,
        price_wei: "1000000000000000",
        settlement_options: [
          {
            protocol: "x402",
            network: "eip155:84532",
            asset: USDC.asset,
            symbol: "USDC",
            amount: "3264000",
            pay_to: USDC.payTo,
            scheme: "exact",
            x402_endpoint: `${PUBLIC_URL}/x402/jobs/1/0`,
          },
        ],
      },
    ]);
  });

  it("Names a method other than EIP-3009", async () => {
    const both = await startAnotherGateway({
      config: { acceptedTokens: [USDC, OTHER_USDC] },
      methods: new Methods([OTHER_METHOD]),
    });
    const methods = ({ settlement_options: options }: Answer) =>
      options.map((option) => option.transfer_method);
    const read = async (path: string) => (await fetch(`${both.url}${path}`)).text();
    expect(methods(JSON.parse(await read("/x402/jobs/1/0/price")))).toEqual([undefined, "other"]);
  });

  it("404 without a price and 403 for a disabled job, with the ids as numbers", async () => {
    for (const [job, status, code] of [
      [9, 404, "job_not_found"],
      [2, 403, "x402_disabled"],
    ] as const) {
      const response = await fetch(`${gateway.jobUrl(job)}/price`);
      expect([response.status, await response.json()]).toMatchObject([
        status,
        { code, service_id: 1, job_index: job },
      ]);
      expect(response.headers.get("cache-control")).toBe("no-store");
    }
  });
});

test("An offer metered is shown as scheme upto, with its ceiling", () => {
  const offer = {
    ...{
      job: { serviceId: 1n, jobIndex: 0 },
      priceWei: 10n,
      token: OTHER_USDC,
      ttlSecs: 300,
      decimals: 6,
      method: "Other",
      isLowest: false,
    },
    ...{
      amount: "640000",
      rate: "640000",
      charge: { kind: "used", scheme: "upto", runSecs: 60 },
    },
  };
  expect(settlementOption(offer, new JobUrls({ publicUrl: PUBLIC_URL }))).toMatchObject({
    scheme: "upto",
    amount: "640000",
  });
  expect(optionText(offer)).toBe("up to 0.64 USDC on eip155:84532 by Other");
});
