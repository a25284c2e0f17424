import { expect, test } from "vitest";
import type { JobPolicy, JobRestriction, X402Config } from "../../../src/config/config.ts";
import type { CallerAuth } from "../../../src/parts/callers/caller-auth.ts";
import { CallerTerms } from "../../../src/parts/callers/caller-terms.ts";
import { RestrictedJobs } from "../../../src/parts/callers/restricted-jobs.ts";
import type { Services } from "../../../src/x402/services.ts";
import { expectDocumented } from "../../helpers/documented-order.ts";

function policy(jobIndex: number, authMode: JobRestriction["authMode"]) {
  const chain = { chainRpcUrl: "http://127.0.0.1:9", chainContract: "0x1", permissionCacheSecs: 0 } as const;
  return {
    serviceId: 1n,
    jobIndex,
    invocationMode: "restricted_paid",
    restriction: { authMode, ...chain },
  } as const;
}

const terms = new CallerTerms({} as CallerAuth, [
  { serviceId: 1n, jobIndex: 0, invocationMode: "public_paid" },
  policy(1, "payer_is_caller"),
  policy(2, "delegated_caller_signature"),
]);

test("docs/errors.md prints the check of the caller at its place, with its refusals", () => {
  for (const check of terms.checks) expectDocumented(check);
});

test("Only restricted jobs have access, and a page cannot buy jobs whose caller signs the request", () => {
  const accessTo = (jobIndex: number, serviceId = 1n) => terms.accessTo({ serviceId, jobIndex });
  expect([accessTo(0), accessTo(1, 2n), accessTo(9)]).toEqual([undefined, undefined, undefined]);
  expect(accessTo(1)).toEqual({ mode: "payer_is_caller", note: "For permitted callers only." });
  expect(accessTo(2)).toMatchObject({
    mode: "delegated_caller_signature",
    note: "For permitted callers only.",
    notByPage: expect.stringContaining("this page cannot make"),
  });
});

test("A gateway without restricted jobs has no terms of callers", () => {
  const services = { periods: { rpcTimeoutMs: 1_000 } } as unknown as Services;
  const jobs = new RestrictedJobs(services);
  const termsOf = (jobPolicies: readonly JobPolicy[]) => jobs.open({ jobPolicies } as X402Config).terms;
  const free = { serviceId: 1n, jobIndex: 0, invocationMode: "public_paid" } as const;
  expect(termsOf([free])).toBeUndefined();
  expect(termsOf([free, policy(1, "payer_is_caller")])).toBeInstanceOf(CallerTerms);
});
