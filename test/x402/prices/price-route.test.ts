import { describe, expect, it } from "vitest";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { PUBLIC_URL, startTestGateway } from "../gateway-harness.ts";
import { USDC } from "../payments.ts";

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
