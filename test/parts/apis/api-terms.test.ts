import { expect, test } from "vitest";
import { ApiTerms } from "../../../src/parts/apis/api-terms.ts";
import type { ApiConfig } from "../../../src/parts/apis/config.ts";
import { UnchargedCalls } from "../../../src/parts/apis/uncharged-calls.ts";
import type { CheckedRequest } from "../../../src/x402/purchase/terms.ts";
import { expectDocumented } from "../../helpers/documented-order.ts";

const API: ApiConfig = {
  name: "weather",
  url: "http://127.0.0.1:8000",
  headers: {},
  forwardHeaders: [],
  timeoutMs: 1_000,
  concurrency: 2,
  free: [],
  access: [],
  freeRate: 1,
  unchargedPerMinute: 2,
};
const REQUEST = {
  job: { serviceId: 1n, jobIndex: 0 },
  request: { headerValues: (_name: string): readonly string[] => [] },
  client: "192.0.2.1",
  payment: { from: "0xabc" },
};
type Request = typeof REQUEST;

/** Does the job with index 2. */
const OTHER = { ...API, name: "maps" };

function termsOf({ inFlight = () => 0, isUp = true }: { inFlight?: () => number; isUp?: boolean } = {}) {
  const uncharged = new UnchargedCalls();
  const apis = [API, undefined, OTHER];
  const find = ({ jobIndex }: { readonly jobIndex: number }) => {
    const api = apis[jobIndex];
    return api && { api, isUp };
  };
  const terms = new ApiTerms({ find, inFlight, uncharged });
  const enter = async (request: Request) => terms.checks[0]?.run(request as CheckedRequest);
  return { uncharged, terms, enter };
}

test("docs/errors.md prints the check of APIs at its place, with its refusals", () => {
  for (const check of termsOf().terms.checks) expectDocumented(check);
});

test("A request for another job enters without a place", async () => {
  const { enter } = termsOf({ inFlight: () => 2 });
  expect(await enter({ ...REQUEST, job: { serviceId: 1n, jobIndex: 1 } })).toBeUndefined();
});

test("A request tells its API the address of its client, and a trace", async () => {
  const fresh = expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  expect((await termsOf().enter(REQUEST))?.requestMetadata).toEqual([
    ["X-FORWARDED-FOR", "192.0.2.1"],
    ["traceparent", fresh],
  ]);
});

test("The trace is the client's own if it is valid", async () => {
  const traceOf = async (...sent: readonly string[]) => {
    const request = { headerValues: (name: string) => (name === "traceparent" ? sent : []) };
    const contribution = await termsOf().enter({ ...REQUEST, request });
    return contribution?.requestMetadata?.find(([name]) => name === "traceparent")?.[1];
  };
  const own = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  expect(await traceOf(own)).toBe(own);
  for (const sent of [[own, own], [`${own} `], [own.replaceAll("a", "0")], [own.replaceAll("b", "0")]])
    expect(await traceOf(...sent)).not.toBe(sent[0]);
});

test("A request waits for a place that another one leaves", async () => {
  const { enter } = termsOf({ inFlight: () => 1 });
  const first = await enter(REQUEST);
  let hasEntered = false;
  const second = enter(REQUEST).then(() => {
    hasEntered = true;
  });
  await Promise.resolve();
  expect(hasEntered).toBe(false);
  first?.leave?.();
  await second;
});

test("A request that finds no place is refused", async () => {
  await expect(termsOf({ inFlight: () => 2 }).enter(REQUEST)).rejects.toMatchObject({
    code: "api_busy",
  });
});

test("A request for an API that does not work is refused", async () => {
  await expect(termsOf({ isUp: false }).enter(REQUEST)).rejects.toMatchObject({
    code: "api_unreachable",
  });
});

test.each([
  ["payer", { ...REQUEST, client: "192.0.2.9" }],
  ["client", { ...REQUEST, payment: { from: "0xdef" } }],
])(
  "A %s whose calls of an API ended without a charge too often is refused there, and not at another API",
  async (_, request) => {
    const { enter, uncharged } = termsOf();
    uncharged.count("weather", "0xabc", "192.0.2.1");
    await enter(request);
    uncharged.count("weather", "0xabc", "192.0.2.1");
    await expect(enter(request)).rejects.toMatchObject({ code: "rate_limited" });
    await expect(enter({ ...request, job: { serviceId: 1n, jobIndex: 2 } })).resolves.toBeDefined();
  },
);
