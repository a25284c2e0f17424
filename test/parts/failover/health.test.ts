import { pino } from "pino";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { GatewayError } from "../../../src/core/errors.ts";
import { FacilitatorHealth } from "../../../src/parts/failover/health.ts";
import { type Facilitator, RateLimited, type Supported } from "../../../src/x402/facilitators/facilitator.ts";

const EXACT = { x402Version: 2, scheme: "exact" };
const ON_BASE: Supported = { kinds: [{ ...EXACT, network: "eip155:8453" }], extensions: [], signers: {} };

/** Health of a facilitator that answers `/supported` so, with a clock that the test moves. */
function healthOf(supported: () => Promise<Supported> = async () => ON_BASE) {
  let now = 0;
  const facilitator: Facilitator = {
    name: "facilitator.example",
    verify: () => Promise.reject(new Error("not asked")),
    settle: () => Promise.reject(new Error("not asked")),
    supported: vi.fn(supported),
  };
  const logger = pino({ level: "silent" });
  const health = new FacilitatorHealth({ facilitator, scheme: undefined, clock: () => now, logger });
  const pass = (ms: number) => {
    now += ms;
  };
  return { health, facilitator, pass };
}

describe("A facilitator's health", () => {
  it("Supports any kind until /supported was read, then the kinds that it lists", async () => {
    const { health } = healthOf();
    const onSepolia = { ...EXACT, network: "eip155:84532" };
    expect(health.maySupport(onSepolia)).toBe(true);
    health.startPolling();
    await vi.waitFor(() => expect(health.supported).toEqual(ON_BASE));
    health.stop();
    expect(health.maySupport(onSepolia)).toBe(false);
    expect(health.maySupport({ ...EXACT, network: "eip155:8453" })).toBe(true);
    expect(health.maySupport({ ...EXACT, x402Version: 1, network: "eip155:8453" })).toBe(false);
  });

  it("One pattern can stand for all EVM chains", async () => {
    const { health } = healthOf(async () => ({ ...ON_BASE, kinds: [{ ...EXACT, network: "eip155:*" }] }));
    health.startPolling();
    await vi.waitFor(() => expect(health.supported).toBeDefined());
    health.stop();
    expect(health.maySupport({ ...EXACT, network: "eip155:84532" })).toBe(true);
  });

  it("Fails after three failures in a row, and a success between them resets the count", () => {
    const { health } = healthOf();
    for (const outcome of ["fail", "fail", "succeed", "fail", "fail"]) {
      if (outcome === "fail") health.failed("verify");
      else health.succeeded("verify");
      expect(health.isReady()).toBe(true);
    }
    health.failed("verify");
    expect(health.isReady()).toBe(false);
    health.succeeded("verify");
    expect(health.isReady()).toBe(true);
  });

  it("Failed settlements make a facilitator unhealthy even where verifications succeed", () => {
    const { health } = healthOf();
    for (let i = 0; i < 3; i++) {
      health.succeeded("verify");
      health.failed("settle");
    }
    expect(health.isReady()).toBe(false);
  });

  it("One request at a time tries a failed one again, after twice the time each", () => {
    const { health, pass } = healthOf();
    for (let i = 0; i < 3; i++) health.failed("verify");
    pass(999);
    expect(health.isReady()).toBe(false);
    pass(1);
    expect(health.isReady()).toBe(true);
    health.noteAsked();
    expect(health.isReady()).toBe(false);
    pass(1_999);
    expect(health.isReady()).toBe(false);
    pass(1);
    expect(health.isReady()).toBe(true);
  });

  it("A busy facilitator is left alone for as long as it requests", () => {
    const { health, pass } = healthOf();
    const cause = new RateLimited(20_000);
    health.failed("verify", new GatewayError("facilitator_unavailable", "Busy.", { cause }));
    pass(19_999);
    expect(health.isReady()).toBe(false);
    pass(1);
    expect(health.isReady()).toBe(true);
  });

  it("Asks for /supported every five minutes, and after failures with a delay that doubles", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let answers = false;
    const { health, facilitator } = healthOf(async () => {
      if (!answers) throw new Error("down");
      return ON_BASE;
    });
    onTestFinished(() => health.stop());
    health.startPolling();
    for (const delayMs of [1_000, 2_000, 4_000]) await expectNextQuestion(facilitator, delayMs);
    answers = true;
    await expectNextQuestion(facilitator, 8_000);
    await expectNextQuestion(facilitator, 300_000);
    answers = false;
    await expectNextQuestion(facilitator, 300_000);
    await expectNextQuestion(facilitator, 1_000);
  });

  it("A facilitator that is asked for /supported too often is healthy, and is left alone as long as it requests", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { health, facilitator } = healthOf(() => Promise.reject(new RateLimited(600_000)));
    onTestFinished(() => health.stop());
    health.startPolling();
    for (let i = 0; i < 4; i++) await expectNextQuestion(facilitator, 600_000);
    expect(health.isReady()).toBe(true);
  });
});

async function expectNextQuestion({ supported }: Facilitator, delayMs: number): Promise<void> {
  const { calls } = vi.mocked(supported).mock;
  const asked = calls.length;
  await vi.advanceTimersByTimeAsync(delayMs - 1);
  expect(calls.length).toBe(asked);
  await vi.advanceTimersByTimeAsync(1);
  expect(calls.length).toBe(asked + 1);
}
