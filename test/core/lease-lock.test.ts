import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { LeaseLock } from "../../src/core/lease-lock.ts";
import { openTestStore } from "../helpers/test-store.ts";

const SILENT = pino({ level: "silent" });

/** Two processes that want one lock for 10 s, renewed after 3 s; store and processes share a clock. */
async function harness() {
  const time = { now: 0 };
  const clock = () => time.now;
  const { store, stop } = await openTestStore({ clock });
  onTestFinished(stop);
  let asked = 0;
  const locks = {
    holdLock(...given: Parameters<typeof store.holdLock>) {
      asked += 1;
      return store.holdLock(...given);
    },
  };
  const lockOf = (owner: string) =>
    new LeaseLock({ locks, name: "work", owner, heldMs: 10_000, renewMs: 3_000, clock });
  return { time, first: lockOf("first"), second: lockOf("second"), askedSoFar: () => asked };
}

it("One of two processes holds a lock, and the other process takes the lock when it is released", async () => {
  const { first, second } = await harness();
  expect(await first.hold()).toBe(true);
  expect(await second.hold()).toBe(false);
  expect(second.leftMs).toBe(0);
  await first.giveUp(SILENT);
  expect(first.leftMs).toBe(0);
  expect(await second.hold()).toBe(true);
});

it("A lock is renewed once its time to renew has come", async () => {
  const { time, first, askedSoFar } = await harness();
  await first.hold();
  time.now = 2_999;
  await first.hold();
  expect([askedSoFar(), first.leftMs]).toEqual([1, 7_001]);
  time.now = 3_000;
  await first.hold();
  expect([askedSoFar(), first.leftMs]).toEqual([2, 10_000]);
});

it("A lock that its holder does not renew goes to another process, and its holder learns so", async () => {
  const { time, first, second } = await harness();
  await first.hold();
  time.now = 10_001;
  expect(first.leftMs).toBe(0);
  expect(await second.hold()).toBe(true);
  expect(await first.hold()).toBe(false);
});

it("A holder has no lock after a renewal that failed, once its time is over", async () => {
  const time = { now: 0 };
  const locks = {
    holdLock: () => (time.now === 0 ? Promise.resolve(true) : Promise.reject(new Error("away"))),
  };
  const lock = new LeaseLock({
    locks,
    name: "work",
    owner: "one",
    heldMs: 10_000,
    renewMs: 3_000,
    clock: () => time.now,
  });
  await lock.hold();
  time.now = 4_000;
  await expect(lock.hold()).rejects.toThrow("away");
  expect(lock.leftMs).toBe(6_000);
  time.now = 10_000;
  expect(lock.leftMs).toBe(0);
  await lock.giveUp(SILENT);
});

it("A lock is written whenever its holder renews it, before its time to", async () => {
  const { time, first, second, askedSoFar } = await harness();
  await first.hold();
  time.now = 10;
  expect([await first.renew(), first.leftMs, askedSoFar()]).toEqual([true, 10_000, 2]);
  expect(await second.renew()).toBe(false);
});
