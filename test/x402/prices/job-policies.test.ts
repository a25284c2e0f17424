import { describe, expect, it } from "vitest";
import type { JobPolicy } from "../../../src/config/config.ts";
import { JobPolicies } from "../../../src/x402/prices/job-policies.ts";
import type { PriceSource } from "../../../src/x402/prices/price-source.ts";
import { priceUnavailable } from "../../../src/x402/prices/price-source.ts";

const NOBODY_KNOWS: PriceSource = { priceOf: () => Promise.reject(priceUnavailable("nobody knows")) };
const POLICIES: JobPolicy[] = [
  { serviceId: 1n, jobIndex: 1, invocationMode: "public_paid" },
  { serviceId: 1n, jobIndex: 2, invocationMode: "disabled" },
];
const job = (jobIndex: number) => ({ serviceId: 1n, jobIndex });

describe("While the price source cannot answer", () => {
  const policies = (defaultInvocationMode: "disabled" | "public_paid") =>
    new JobPolicies({ jobPolicies: POLICIES, defaultInvocationMode }, NOBODY_KNOWS);

  it("A default of disabled does not confirm that a job exists", async () => {
    await expect(policies("disabled").find(job(0))).rejects.toMatchObject({ code: "price_unavailable" });
  });

  it("A job that its own policy disables is x402_disabled", async () => {
    for (const mode of ["disabled", "public_paid"] as const) {
      await expect(policies(mode).find(job(2))).rejects.toMatchObject({ code: "x402_disabled" });
    }
  });

  it("An enabled job is found, so that earlier offers can be paid", async () => {
    const enabled = { policy: { invocationMode: "public_paid" }, unavailable: { code: "price_unavailable" } };
    expect(await policies("disabled").find(job(1))).toMatchObject(enabled);
    expect(await policies("public_paid").find(job(0))).toMatchObject(enabled);
  });
});
