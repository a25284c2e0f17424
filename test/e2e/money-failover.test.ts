import { afterEach, describe, expect, it } from "vitest";
import type { X402Periods } from "../../src/x402/gateway-options.ts";
import type { Fault } from "../helpers/fault.ts";
import { startFaultProxy } from "../helpers/http-proxy.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { ACCEPTED, UNAVAILABLE, UNDECIDED } from "./expected-answers.ts";
import { ONE_PAID_JOB, watchLedger } from "./ledger.ts";
import { type PaidGateway, type PaidGatewayOptions, startPaidGateway } from "./paid-gateway.ts";
import { startPaidParts } from "./paid-parts.ts";

const parts = startBeforeAll(startPaidParts);
const second = startBeforeAll(() => startFaultProxy({ target: parts.facilitator.url }));
const withRpc = startBeforeAll(() => startSeller({ setUp: "rpc_url", facilitatorTimeoutSecs: 60 }));
const withoutRpc = startBeforeAll(() =>
  startSeller({ setUp: "no rpc_url", facilitatorTimeoutSecs: 60 }, { verifyPatienceMs: 100 }),
);
/** It may give up on a facilitator that is only slow. */
const hasty = startBeforeAll(() => startSeller({ setUp: "rpc_url", facilitatorTimeoutSecs: 1 }));

afterEach(() => {
  for (const proxy of [withRpc, withoutRpc, hasty].map((seller) => seller.facilitatorProxy)) proxy.clear();
  second.clear();
});

/** Starts a gateway whose own facilitator proxy is the first of two facilitators. */
function startSeller(
  options: Pick<PaidGatewayOptions, "setUp" | "facilitatorTimeoutSecs">,
  periods: Partial<X402Periods> = {},
) {
  return startPaidGateway({
    parts,
    ...options,
    periods: { pendingLookMs: 20, confirmationTimeoutMs: 300, roundMs: 100, firstDelayMs: 100, ...periods },
    edit: (config) =>
      `${config.replace(/facilitator_url = .*/, "")}\n${[
        /facilitator_url = "(.*)"/.exec(config)?.[1],
        second.url,
      ]
        .map((url) => `[[x402.facilitators]]\nurl = "${url}"`)
        .join("\n")}\n`,
  });
}

/** Requests of both facilitators from now on. One that failed in an earlier test may be the second to be asked. */
function watchFacilitators({ facilitatorProxy }: PaidGateway) {
  const proxies = [facilitatorProxy, second];
  const counts = (path: string) => proxies.map((proxy) => proxy.count(path));
  const before = { verify: counts("/verify"), settle: counts("/settle") };
  return {
    /** Strikes the first request for the path, whichever facilitator gets it. */
    failFirst(path: string, fault: Fault): void {
      let left = 1;
      for (const proxy of proxies) proxy.add({ path, when: () => left-- > 0, fault });
    },
    failAll(path: string, fault: Fault): void {
      for (const proxy of proxies) proxy.add({ path, fault });
    },
    /** Requests of the less and of the more asked one. */
    verified: () =>
      counts("/verify")
        .map((count, i) => count - (before.verify[i] ?? 0))
        .sort(),
    settled: () =>
      counts("/settle")
        .map((count, i) => count - (before.settle[i] ?? 0))
        .sort(),
  };
}

const REFUSED = {
  success: false,
  errorReason: "unexpected_settle_error",
  transaction: "",
  network: "eip155:84532",
};
/** Answers to `/settle` after which nothing has moved. */
const NOT_SETTLED: Readonly<Record<string, Fault>> = {
  "dies before it settles": { kind: "cut" },
  refuses: { kind: "answer", status: 200, body: REFUSED },
  "answers 500": { kind: "answer", status: 500, body: "" },
  "lies that it settled": {
    kind: "answer",
    status: 200,
    body: { success: true, transaction: `0x${"11".repeat(32)}`, network: "eip155:84532" },
  },
};
/** Answers to `/settle` of a facilitator that settled. */
const SETTLED: Readonly<Record<string, Fault>> = {
  dies: { kind: "lose-answer" },
  "lies that it refused": {
    kind: "change",
    change: (answer) => ({ ...answer, body: Buffer.from(JSON.stringify(REFUSED)) }),
  },
};
/** Changes of the books by one payment; the requests are counted over both facilitators. */
const { payments, jobs, received } = ONE_PAID_JOB;
const PAID_ONCE = {
  payments,
  jobs,
  received,
  verifyCalls: expect.any(Number) as number,
  settleCalls: expect.any(Number) as number,
};

describe("Two facilitators, with rpc_url", () => {
  it.each(Object.entries(NOT_SETTLED))("One %s → the other settles: 202, paid once", async (body, fault) => {
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    const facilitators = watchFacilitators(withRpc);
    facilitators.failFirst("/settle", fault);
    expect(await withRpc.send(payment, { body })).toMatchObject(ACCEPTED);
    expect(facilitators.settled()).toEqual([1, 1]);
    await withRpc.waitForJobs(body);
    await expectChanges(PAID_ONCE);
  });

  it.each(Object.entries(SETTLED))(
    "One settles and %s → 202 by the chain, and the other is never asked",
    async (what, fault) => {
      const body = `settled, but ${what}`;
      const payment = await withRpc.sign();
      const expectChanges = await watchLedger(parts, withRpc);
      const facilitators = watchFacilitators(withRpc);
      facilitators.failFirst("/settle", fault);
      expect(await withRpc.send(payment, { body })).toMatchObject(ACCEPTED);
      expect(facilitators.settled()).toEqual([0, 1]);
      await withRpc.waitForJobs(body);
      await expectChanges(PAID_ONCE);
    },
  );

  it("One stalls in a settlement → the other settles after the time-out", async () => {
    const body = "stalled";
    const payment = await hasty.sign();
    const expectChanges = await watchLedger(parts, hasty);
    const facilitators = watchFacilitators(hasty);
    facilitators.failFirst("/settle", { kind: "hold-request", until: new Promise(() => undefined) });
    expect(await hasty.sendUntilDecided(payment, { body, timeoutMs: 60_000 })).toMatchObject(ACCEPTED);
    expect(facilitators.settled()).toEqual([1, 1]);
    await hasty.waitForJobs(body);
    await expectChanges(PAID_ONCE);
  });

  it("Neither settles → 503, and no job", async () => {
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    const facilitators = watchFacilitators(withRpc);
    facilitators.failAll("/settle", { kind: "cut" });
    expect(await withRpc.send(payment)).toEqual(UNDECIDED);
    expect(facilitators.settled()).toEqual([1, 1]);
    await expectChanges({ ...PAID_ONCE, jobs: 0, received: 0n, payments: { intent: 1 } });
  });
});

describe("Two facilitators that verify", () => {
  it.each<[string, Fault]>([
    ["does not answer", { kind: "no-answer" }],
    ["cuts the connection", { kind: "cut" }],
    ["answers 429", { kind: "answer", status: 429, headers: { "retry-after": "0" }, body: "" }],
  ])("One %s → the other verifies, and settles", async (what, fault) => {
    const body = `verify: ${what}`;
    const payment = await withoutRpc.sign();
    const facilitators = watchFacilitators(withoutRpc);
    let failing: unknown;
    for (const proxy of [withoutRpc.facilitatorProxy, second]) {
      // The client asks again after a cut, so the first one fails from then on.
      const when = () => {
        failing ??= proxy;
        return failing === proxy;
      };
      proxy.add({ path: "/verify", when, fault });
    }
    expect(await withoutRpc.send(payment, { body })).toMatchObject(ACCEPTED);
    expect(facilitators.settled()).toEqual([0, 1]);
    await withoutRpc.waitForJobs(body);
  });

  it("A verdict is final: 402, and the other facilitator is not called", async () => {
    const payment = await withRpc.sign();
    const facilitators = watchFacilitators(withRpc);
    const body = { isValid: false, invalidReason: "insufficient_funds" };
    facilitators.failFirst("/verify", { kind: "answer", status: 200, body });
    expect(await withRpc.send(payment)).toMatchObject({ status: 402, code: "payment_invalid" });
    expect(facilitators.verified()).toEqual([0, 1]);
  });

  it("Both are down → 503, nothing written", async () => {
    const payment = await withRpc.sign();
    const expectChanges = await watchLedger(parts, withRpc);
    watchFacilitators(withRpc).failAll("/verify", { kind: "cut" });
    expect(await withRpc.send(payment)).toEqual(UNAVAILABLE);
    await expectChanges({ verifyCalls: 2 });
  });
});

describe("Two facilitators, without rpc_url", () => {
  it("One dies before it settles → 503; only it is called again, and then there is one job", async () => {
    const body = "asked again";
    const payment = await withoutRpc.sign();
    const facilitators = watchFacilitators(withoutRpc);
    facilitators.failFirst("/settle", { kind: "cut" });
    expect(await withoutRpc.send(payment, { body })).toEqual(UNDECIDED);
    expect(await withoutRpc.sendUntilDecided(payment, { body })).toMatchObject(ACCEPTED);
    expect(facilitators.settled()).toEqual([0, 2]);
    await withoutRpc.waitForJobs(body);
  });
});
