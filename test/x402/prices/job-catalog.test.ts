import { describe, expect, it } from "vitest";
import type { JobPolicy } from "../../../src/config/config.ts";
import type { PriceSource } from "../../../src/pricing/price-map.ts";
import { priceUnavailable } from "../../../src/pricing/price-unavailable.ts";
import { JobCatalog } from "../../../src/x402/prices/job-catalog.ts";

const NOBODY_KNOWS: PriceSource = { priceOf: () => Promise.reject(priceUnavailable("nobody knows")) };
const POLICIES: JobPolicy[] = [
  { serviceId: 1n, jobIndex: 1, invocationMode: "public_paid" },
  { serviceId: 1n, jobIndex: 2, invocationMode: "disabled" },
];
const job = (jobIndex: number) => ({ serviceId: 1n, jobIndex });

describe("While nobody can tell the price of a job", () => {
  const catalog = (defaultInvocationMode: "disabled" | "public_paid") =>
    new JobCatalog({ jobPolicies: POLICIES, defaultInvocationMode }, NOBODY_KNOWS);

  it("it is not said to exist because the default disables all jobs", async () => {
    await expect(catalog("disabled").find(job(0))).rejects.toMatchObject({ code: "price_unavailable" });
  });

  it("a policy of its own that disables it is said", async () => {
    for (const mode of ["disabled", "public_paid"] as const) {
      await expect(catalog(mode).find(job(2))).rejects.toMatchObject({ code: "x402_disabled" });
    }
  });

  it("a job that is for sale can be bought at an offer that was made before", async () => {
    expect((await catalog("disabled").find(job(1))).invocationMode).toBe("public_paid");
    expect((await catalog("public_paid").find(job(0))).invocationMode).toBe("public_paid");
  });
});
