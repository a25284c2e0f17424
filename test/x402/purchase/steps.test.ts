import { expect, test } from "vitest";
import type { GatewayError } from "../../../src/core/errors.ts";
import { PurchaseState, purchaseSteps } from "../../../src/x402/purchase/steps.ts";
import type { CheckedRequest, TermsCheck } from "../../../src/x402/purchase/terms.ts";
import { documentedOrder } from "../../helpers/documented-order.ts";

const check = (name: string, before: TermsCheck["before"]): TermsCheck => ({
  name,
  before,
  refusals: ["rate_limited"],
  run: () => undefined,
});

test("docs/errors.md prints the steps of a purchase in their order, with their refusals", () => {
  const steps = purchaseSteps([]).map(({ name, refusals }) => ({ name, refusals }));
  const names = new Set<string>(steps.map(({ name }) => name));
  const ofCore = new Set<string>(steps.flatMap(({ refusals }) => refusals));
  const documented = documentedOrder().filter(({ name }) => names.has(name));
  // A part may refuse in its own words.
  expect(
    documented.map(({ name, refusals }) => ({ name, refusals: refusals.filter((code) => ofCore.has(code)) })),
  ).toEqual(steps);
});

test("A check of a part comes directly before its step, behind the earlier checks at that place", () => {
  const names = purchaseSteps([check("second", "room"), check("first", "offer"), check("third", "room")]).map(
    ({ name }) => name,
  );
  expect(names.slice(names.indexOf("first"), names.indexOf("verification"))).toEqual([
    "first",
    "offer",
    "second",
    "third",
    "room",
  ]);
});

test("A check runs for the jobs that it is about alone", async () => {
  const asked: number[] = [];
  const run = ({ job }: CheckedRequest) => void asked.push(job.jobIndex);
  const about = { ...check("about", "room"), jobs: new Set(["1/0"]), run };
  const step = purchaseSteps([about]).find(({ name }) => name === "about");
  const parts = { limits: { clientOf: () => "::1" } } as never;
  for (const jobIndex of [0, 1]) {
    const paid = { request: {}, payment: {}, identity: { serviceId: 1n, jobIndex } };
    await step?.run(new PurchaseState(paid as never), parts);
  }
  expect(asked).toEqual([0]);
});

test("What a check adds is kept until the purchase has ended, and a refusal adds nothing", async () => {
  const refusal = new Error("full") as GatewayError;
  const added = { requestMetadata: [["x-a", "1"]] as const };
  const terms: TermsCheck[] = [
    { ...check("adds", "room"), run: ({ client }: CheckedRequest) => (client === "::1" ? added : undefined) },
    {
      ...check("refuses", "room"),
      run: () => {
        throw refusal;
      },
    },
  ];
  const state = new PurchaseState({ request: {}, payment: {}, identity: {} } as never);
  const parts = { limits: { clientOf: () => "::1" } } as never;
  const [adds, refuses] = purchaseSteps(terms).filter(({ name }) => name === "adds" || name === "refuses");
  await adds?.run(state, parts);
  expect(state.contributions).toEqual([added]);
  await expect(refuses?.run(state, parts)).rejects.toBe(refusal);
  expect(state.contributions).toEqual([added]);
});
