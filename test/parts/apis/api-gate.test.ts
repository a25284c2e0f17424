import { expect, test } from "vitest";
import { ApiGate } from "../../../src/parts/apis/api-gate.ts";
import type { ApiConfig } from "../../../src/parts/apis/config.ts";
import { UnchargedCalls } from "../../../src/parts/apis/uncharged-calls.ts";

const API: ApiConfig = {
  name: "weather",
  url: "http://127.0.0.1:8000",
  headers: {},
  forwardHeaders: [],
  timeoutMs: 1_000,
  concurrency: 2,
  free: [],
  freeRate: 1,
  unchargedPerMinute: 2,
};
const ENTERING = { job: { serviceId: 1n, jobIndex: 0 }, client: "192.0.2.1", payer: "0xABC" };

/** Does the job with index 2. */
const OTHER = { ...API, name: "maps" };

function gateOf({ inFlight = () => 0, isUp = true }: { inFlight?: () => number; isUp?: boolean } = {}) {
  const uncharged = new UnchargedCalls();
  const apis = [API, undefined, OTHER];
  const find = ({ jobIndex }: { readonly jobIndex: number }) => {
    const api = apis[jobIndex];
    return api && { api, isUp };
  };
  return { uncharged, gate: new ApiGate({ find, inFlight, uncharged }) };
}

test("A request for another job enters without a place", async () => {
  const { gate } = gateOf({ inFlight: () => 2 });
  expect(await gate.enter({ ...ENTERING, job: { serviceId: 1n, jobIndex: 1 } })).toBeUndefined();
});

test("A request tells its API the address of its client", async () => {
  expect((await gateOf().gate.enter(ENTERING))?.metadata).toEqual([["X-FORWARDED-FOR", "192.0.2.1"]]);
});

test("A request waits for a place that another one leaves", async () => {
  const { gate } = gateOf({ inFlight: () => 1 });
  const first = await gate.enter(ENTERING);
  let hasEntered = false;
  const second = gate.enter(ENTERING).then(() => {
    hasEntered = true;
  });
  await Promise.resolve();
  expect(hasEntered).toBe(false);
  first?.leave();
  await second;
});

test("A request that finds no place is refused", async () => {
  await expect(gateOf({ inFlight: () => 2 }).gate.enter(ENTERING)).rejects.toMatchObject({
    code: "api_busy",
  });
});

test("A request for an API that does not work is refused", async () => {
  await expect(gateOf({ isUp: false }).gate.enter(ENTERING)).rejects.toMatchObject({
    code: "api_unreachable",
  });
});

test.each([
  ["payer", { ...ENTERING, client: "192.0.2.9" }],
  ["client", { ...ENTERING, payer: "0xdef" }],
])(
  "A %s whose calls of an API ended without a charge too often is refused there, and not at another API",
  async (_, entering) => {
    const { gate, uncharged } = gateOf();
    uncharged.count("weather", "0xabc", "192.0.2.1");
    await gate.enter(entering);
    uncharged.count("weather", "0xabc", "192.0.2.1");
    await expect(gate.enter(entering)).rejects.toMatchObject({ code: "rate_limited" });
    await expect(gate.enter({ ...entering, job: { serviceId: 1n, jobIndex: 2 } })).resolves.toBeDefined();
  },
);
