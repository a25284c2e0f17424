import { describe, expect, it, test } from "vitest";
import type { JobPolicy, X402Config } from "../../../src/config/config.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { JobChargeTerms, JobPolicies } from "../../../src/x402/prices/job-policies.ts";
import { type PriceSource, priceUnavailable } from "../../../src/x402/prices/price-source.ts";
import { OTHER_METHOD, OTHER_SCHEME, USDC } from "../payments.ts";

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

const ADDRESS = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

function termsOf(
  job: Partial<NonNullable<X402Config["jobs"]>[number]>,
  settlerOf: (network: string) => string | undefined = () => ADDRESS,
): JobChargeTerms {
  const jobs = [{ serviceId: 1n, jobIndex: 0, ...job }] as NonNullable<X402Config["jobs"]>;
  return new JobChargeTerms({
    config: { jobs, acceptedTokens: [USDC], settleMarginSecs: 60 },
    facilitators: { facilitatorAddressOn: settlerOf },
    methods: new Methods([OTHER_METHOD], undefined, undefined, OTHER_SCHEME),
  });
}
const JOB = { serviceId: 1n, jobIndex: 0 };

test("A job that is charged in part may run for max_run_secs, and its payment outlives that by the margin", () => {
  expect(termsOf({ charge: ["used"], maxRunSecs: 120 }).of(JOB)).toEqual({
    methods: new Set(["other"]),
    kinds: ["used"],
    runSecs: 180,
    scheme: OTHER_SCHEME,
    facilitatorAddresses: new Map([[USDC.network, ADDRESS]]),
  });
  const kinds = ["used", "before"] as const;
  expect(termsOf({ charge: kinds }).of(JOB)).toMatchObject({ kinds, runSecs: 360 });
  expect(termsOf({ charge: ["after"] }).of(JOB)).toMatchObject({ kinds: ["after"], runSecs: 360 });
});

test("Jobs that are charged before they run, and jobs that are not configured, have no terms", () => {
  expect(termsOf({}).of(JOB)).toBeUndefined();
  expect(termsOf({ charge: ["used"] }).of({ ...JOB, jobIndex: 1 })).toBeUndefined();
});

test("The terms are the same object until the account that settles changes", () => {
  let address: string | undefined;
  const terms = termsOf({ charge: ["used"] }, () => address);
  const without = terms.of(JOB);
  expect(without?.facilitatorAddresses.size).toBe(0);
  expect(terms.of(JOB)).toBe(without);
  address = ADDRESS;
  const withAddress = terms.of(JOB);
  expect(withAddress?.facilitatorAddresses.get(USDC.network)).toBe(ADDRESS);
  expect(terms.of(JOB)).toBe(withAddress);
});
