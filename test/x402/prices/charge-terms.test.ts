import { expect, test } from "vitest";
import type { X402Config } from "../../../src/config/config.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { JobChargeTerms } from "../../../src/x402/prices/charge-terms.ts";
import { OTHER_METHOD, OTHER_SCHEME, USDC } from "../payments.ts";

const ADDRESS = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

function termsOf(
  job: Partial<NonNullable<X402Config["jobs"]>[number]>,
  settlerOf: (network: string) => string | undefined = () => ADDRESS,
): JobChargeTerms {
  const jobs = [{ serviceId: 1n, jobIndex: 0, ...job }] as NonNullable<X402Config["jobs"]>;
  return new JobChargeTerms({
    config: { jobs, acceptedTokens: [USDC], settleMarginSecs: 60 },
    facilitators: { settlerOn: settlerOf },
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
    settlers: new Map([[USDC.network, ADDRESS]]),
  });
  const kinds = ["used", "before"] as const;
  expect(termsOf({ charge: kinds }).of(JOB)).toMatchObject({ kinds, runSecs: 360 });
  expect(termsOf({ charge: ["after"] }).of(JOB)).toMatchObject({ kinds: ["after"], runSecs: 360 });
});

test("Jobs that are charged before they run, and those that are not configured, have no terms", () => {
  expect(termsOf({}).of(JOB)).toBeUndefined();
  expect(termsOf({ charge: ["used"] }).of({ ...JOB, jobIndex: 1 })).toBeUndefined();
});

test("The terms are the same object until the account that settles changes", () => {
  let address: string | undefined;
  const terms = termsOf({ charge: ["used"] }, () => address);
  const without = terms.of(JOB);
  expect(without?.settlers.size).toBe(0);
  expect(terms.of(JOB)).toBe(without);
  address = ADDRESS;
  const withAddress = terms.of(JOB);
  expect(withAddress?.settlers.get(USDC.network)).toBe(ADDRESS);
  expect(terms.of(JOB)).toBe(withAddress);
});
