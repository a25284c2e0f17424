import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { ProofMaker } from "../../../src/parts/pricing-engine/proof-maker.ts";
import { ProofThread } from "../../../src/parts/pricing-engine/proof-thread.ts";
import { startLog } from "../../helpers/log.ts";
import { isProof } from "../../helpers/pricing-engine.ts";

const NOW_MS = 1_700_000_000_400;
const NOW_SECS = 1_700_000_000n;

/*
 * What a search takes is known beforehand, as it depends only on the challenge. At 24 bits and the time above,
 * the service in SLOW takes more than 32 million hashes (8 s), and those in QUICK at most 80,000 (20 ms).
 */
const HARD = 24;
const SLOW = 10n;
const QUICK = [82n, 424n, 436n, 588n, 632n, 648n] as const;
const [FIRST, SECOND, THIRD] = QUICK;

/** 133 s later, the slow service and this one are quick. */
const LATER_MS = 133_000;
const KNOWN = 400n;
/** Time for which work without requesters continues. */
const MAX_UNWANTED_MS = 15_000;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A maker with a clock that the test moves, of an operator with one service. */
function startMaker(difficulty: number, options: { maxUnwantedMs?: number } = {}) {
  const time = { nowMs: NOW_MS };
  const { logger, lines } = startLog();
  const isKnownService = (serviceId: bigint) => serviceId === KNOWN;
  const maker = new ProofMaker({
    difficulty,
    isKnownService,
    clock: () => time.nowMs,
    logger,
    ...options,
  });
  onTestFinished(() => maker.stop());
  return { maker, time, lines };
}

/** Keeps the thread busy until it is let go. */
function occupy(maker: ProofMaker) {
  const control = new AbortController();
  const ended = maker.proofFor(SLOW, control.signal).catch((error: unknown) => error);
  return {
    async release() {
      control.abort(new Error("released"));
      expect(await ended).toEqual(new Error("released"));
    },
  };
}

/** CPU time tells also on a busy machine whether the slow search was carried through. */
function expectNoSlowSearch(before: NodeJS.CpuUsage): void {
  expect(process.cpuUsage(before).user).toBeLessThan(4_000_000);
}

test("A proof solves the challenge of its service and its own timestamp", async () => {
  const { maker } = startMaker(10);
  const { proof, timestamp } = await maker.proofFor(7n);
  expect(timestamp).toBe(NOW_SECS);
  expect(isProof(proof, { id: 7n, timestamp, bits: 10 })).toBe(true);
});

test("Every request for a service within 20 s gets the same proof", async () => {
  const { maker, time } = startMaker(10);
  const together = await Promise.all(Array.from({ length: 50 }, () => maker.proofFor(7n)));
  expect(new Set(together).size).toBe(1);
  time.nowMs = 1_700_000_019_999;
  expect(await maker.proofFor(7n)).toBe(together[0]);
  time.nowMs = 1_700_000_020_000;
  const next = await maker.proofFor(7n);
  expect(next.timestamp).toBe(NOW_SECS + 20n);
  expect(isProof(next.proof, { id: 7n, timestamp: next.timestamp, bits: 10 })).toBe(true);
});

test("A dropped proof is not given out again, and dropping it twice spares its successor", async () => {
  const { maker, time } = startMaker(8);
  const first = await maker.proofFor(7n);
  maker.drop(7n, first);
  time.nowMs += 1000;
  const second = await maker.proofFor(7n);
  expect(second.timestamp).toBe(first.timestamp + 1n);
  maker.drop(7n, first);
  expect(await maker.proofFor(7n)).toBe(second);
});

test("Work without requesters gives way at once to a service with requesters", async () => {
  const { maker } = startMaker(HARD);
  await maker.proofFor(FIRST);
  const { release } = occupy(maker);
  const next = maker.proofFor(SECOND);
  const before = process.cpuUsage();
  await release();
  await next;
  expectNoSlowSearch(before);
});

test("Work continues for remaining requesters when one leaves", async () => {
  const { maker } = startMaker(HARD);
  const { release } = occupy(maker);
  const impatient = new AbortController();
  const left = maker.proofFor(FIRST, impatient.signal);
  const stays = maker.proofFor(FIRST);
  impatient.abort(new Error("too long"));
  await expect(left).rejects.toThrow("too long");
  await release();
  expect((await stays).timestamp).toBe(NOW_SECS);
});

/** Requests a proof, and aborts as soon as its search has begun. */
async function askAndLeave(maker: ProofMaker, serviceId: bigint) {
  const control = new AbortController();
  const asked = maker.proofFor(serviceId, control.signal);
  control.abort(new Error("gone"));
  await expect(asked).rejects.toThrow("gone");
}

test("Work without requesters continues, and the next requester gets its proof", async () => {
  const { maker, time } = startMaker(HARD);
  await askAndLeave(maker, FIRST);
  time.nowMs += 5_000;
  expect((await maker.proofFor(FIRST)).timestamp).toBe(NOW_SECS);
});

test("Work for the operator's own service continues although an unknown service waits", async () => {
  const { maker, time } = startMaker(HARD);
  time.nowMs += LATER_MS;
  await askAndLeave(maker, KNOWN);
  await maker.proofFor(SLOW);
  time.nowMs += 5_000;
  expect((await maker.proofFor(KNOWN)).timestamp).toBe(NOW_SECS + 133n);
});

test("Work without requesters is given up after a while, and a later requester gets a new search", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const { maker, time } = startMaker(HARD, { maxUnwantedMs: MAX_UNWANTED_MS });
  await maker.proofFor(FIRST);
  await askAndLeave(maker, SLOW);
  vi.advanceTimersByTime(MAX_UNWANTED_MS);
  time.nowMs += LATER_MS;
  const before = process.cpuUsage();
  expect((await maker.proofFor(SLOW)).timestamp).toBe(NOW_SECS + 133n);
  expectNoSlowSearch(before);
});

test("Work that is requested again in time is not given up", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const { maker } = startMaker(HARD, { maxUnwantedMs: MAX_UNWANTED_MS });
  await maker.proofFor(FIRST);
  await askAndLeave(maker, SLOW);
  vi.advanceTimersByTime(MAX_UNWANTED_MS - 1);
  const { release } = occupy(maker);
  const cancel = vi.spyOn(ProofThread.prototype, "cancel");
  vi.advanceTimersByTime(MAX_UNWANTED_MS);
  expect(cancel).not.toHaveBeenCalled();
  await release();
});

test("An aborted request starts no work", async () => {
  const { maker } = startMaker(HARD);
  const gone = AbortSignal.abort(new Error("gone"));
  await expect(maker.proofFor(SLOW, gone)).rejects.toThrow("gone");
  const before = process.cpuUsage();
  await maker.proofFor(FIRST);
  expectNoSlowSearch(before);
});

test("Services that the engine has quoted go before unknown ones", async () => {
  const { maker } = startMaker(HARD);
  const { release } = occupy(maker);
  maker.prefer(THIRD);
  const order: bigint[] = [];
  const asked = QUICK.map((serviceId) => maker.proofFor(serviceId).then(() => order.push(serviceId)));
  await release();
  await Promise.all(asked);
  expect(order).toEqual([THIRD, ...QUICK.filter((serviceId) => serviceId !== THIRD)]);
});

test("At most 64 services wait; a quoted one takes the place of the last that is unknown", async () => {
  const { maker } = startMaker(HARD);
  const { release } = occupy(maker);
  const unknown = Array.from({ length: 64 }, (_, i) => maker.proofFor(10_000n + BigInt(i)));
  const outcomes = Promise.allSettled(unknown);
  const refusal = {
    code: "price_unavailable",
    headers: { "retry-after": "2" },
    message: expect.stringContaining("too many services wait") as string,
  };
  await expect(maker.proofFor(FIRST)).rejects.toMatchObject(refusal);
  maker.prefer(FIRST);
  const preferred = maker.proofFor(FIRST);
  await expect(unknown[63]).rejects.toMatchObject(refusal);
  // A service that waits already is joined, however many wait.
  const joined = maker.proofFor(FIRST);
  await release();
  expect(await preferred).toBe(await joined);
  await maker.stop();
  const codes = (await outcomes).map(
    (one) => one.status === "rejected" && (one.reason as { code: string }).code,
  );
  expect(codes).toEqual([...Array<string>(63).fill("shutting_down"), "price_unavailable"]);
});

test("The operator's own service is served at once, although 64 unknown ones wait and one is in progress", async () => {
  const { maker, time } = startMaker(HARD);
  const unknown = [SLOW, ...Array.from({ length: 64 }, (_, i) => 10_000n + BigInt(i))];
  const outcomes = Promise.allSettled(unknown.map((serviceId) => maker.proofFor(serviceId)));
  time.nowMs += LATER_MS;
  const before = process.cpuUsage();
  expect((await maker.proofFor(KNOWN)).timestamp).toBe(NOW_SECS + 133n);
  expectNoSlowSearch(before);
  await maker.stop();
  const codes = (await outcomes).map(
    (one) => one.status === "rejected" && (one.reason as { code: string }).code,
  );
  // Only the last was displaced, and no other work was done before.
  expect(codes).toEqual([...Array<string>(64).fill("shutting_down"), "price_unavailable"]);
});

test("Work that gave way to the operator's own service is resumed", async () => {
  const { maker, time } = startMaker(HARD);
  const order: bigint[] = [];
  const slow = maker.proofFor(SLOW).then(() => order.push(SLOW));
  time.nowMs += LATER_MS;
  const before = process.cpuUsage();
  const known = maker.proofFor(KNOWN).then(() => order.push(KNOWN));
  await Promise.all([slow, known]);
  expect(order).toEqual([KNOWN, SLOW]);
  expectNoSlowSearch(before);
});

test("A stopped maker refuses waiting and new requests, and its thread ends", async () => {
  const { maker } = startMaker(HARD);
  const asked = [maker.proofFor(SLOW), maker.proofFor(FIRST)];
  const outcomes = Promise.allSettled(asked);
  const before = process.cpuUsage();
  await maker.stop();
  expectNoSlowSearch(before);
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "shutting_down" } });
  }
  await expect(maker.proofFor(FIRST)).rejects.toMatchObject({ code: "shutting_down" });
});

test("A search that fails is a refusal, and the next has a new thread", async () => {
  const { maker, time, lines } = startMaker(8);
  // No u64 can hold this time, so the thread dies of it.
  time.nowMs = -5_000;
  await expect(maker.proofFor(1n)).rejects.toMatchObject({ code: "price_unavailable" });
  expect(lines.map(({ level, msg }) => [level, msg])).toEqual([[50, "a proof of work could not be made"]]);
  time.nowMs = NOW_MS;
  expect((await maker.proofFor(1n)).timestamp).toBe(NOW_SECS);
});
