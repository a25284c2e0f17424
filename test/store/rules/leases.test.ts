import { expect, test } from "vitest";
import {
  afterRelease,
  afterRetry,
  isUsedUp,
  leaseOutcome,
  leaseStanding,
  retryDelayMs,
} from "../../../src/store/rules/leases.ts";

const lease = { leaseToken: "token" };
const leased = { state: "leased", visible_at: 1000, lease_token: "token" } as const;
const backoff = { baseMs: 1000, maxMs: 300_000 };

test("A lease holds for its token until exactly its expiry", () => {
  expect(leaseOutcome(leased, lease, 999)).toBe("done");
  expect(leaseOutcome(leased, lease, 1000)).toBe("lease_lost");
  expect(leaseOutcome(leased, { leaseToken: "another" }, 0)).toBe("lease_lost");
});

test("An unfinished JobCall that is not leased has lost its lease; any other is not found", () => {
  expect(leaseOutcome({ ...leased, state: "ready" }, lease, 0)).toBe("lease_lost");
  expect(leaseOutcome({ ...leased, state: "delayed" }, lease, 0)).toBe("lease_lost");
  expect(leaseOutcome({ ...leased, state: "held" }, lease, 0)).toBe("not_found");
  expect(leaseOutcome({ ...leased, state: "dead", lease_token: null }, lease, 0)).toBe("not_found");
  // It was taken from a runner.
  expect(leaseOutcome({ ...leased, state: "dead" }, lease, 0)).toBe("lease_lost");
  expect(leaseOutcome(undefined, lease, 0)).toBe("not_found");
});

test("The state of a lease has its expiry while it is held, and the time of the lookup", () => {
  expect(leaseStanding(leased, lease, 999)).toEqual({ kind: "held", at: 999, leaseExpiresAt: 1000 });
  expect(leaseStanding(leased, lease, 1000)).toEqual({ kind: "lease_lost", at: 1000 });
  expect(leaseStanding(undefined, lease, 1000)).toEqual({ kind: "not_found" });
});

test("Forgiven attempts are not counted towards the maximum", () => {
  expect(isUsedUp({ attempts: 3, forgiven: 0 }, 3)).toBe(true);
  expect(isUsedUp({ attempts: 3, forgiven: 1 }, 3)).toBe(false);
});

test("A retry is ready at once, delayed by request or by backoff, or dead with its reason", () => {
  const call = { attempts: 3, forgiven: 1 };
  const retry = { backoff, maxAttempts: 3, reason: "busy" };
  expect(afterRetry(call, { ...retry, delayMs: 0 }, 50, 0.5)).toEqual({ state: "ready", forgiven: 1 });
  expect(afterRetry(call, { ...retry, delayMs: 7 }, 50, 0.5)).toEqual({
    state: "delayed",
    forgiven: 1,
    visibleAt: 57,
    suspect: false,
  });
  expect(afterRetry(call, retry, 50, 0.5)).toMatchObject({ state: "delayed", forgiven: 1, visibleAt: 1050 });
  expect(afterRetry(call, { ...retry, maxAttempts: 2, delayMs: 0 }, 50, 0.5)).toEqual({
    state: "dead",
    reason: "max_attempts: busy",
  });
});

test("An excused release forgives the attempt, is due at once, and keeps a suspect one", () => {
  const call = { attempts: 3, forgiven: 0, visible_at: 900 };
  const excused = { excused: true, maxAttempts: 3, backoff };
  expect(afterRelease(call, excused, 50, 0.5)).toEqual({ state: "ready", forgiven: 1 });
  expect(afterRelease(call, { ...excused, suspect: true }, 50, 0.5)).toEqual({
    state: "delayed",
    forgiven: 1,
    visibleAt: 50,
    suspect: true,
  });
});

test("A JobCall lost with its stream waits for the backoff, and once used up for its lease's end", () => {
  const call = { attempts: 3, forgiven: 1, visible_at: 900 };
  const lost = { excused: false, backoff };
  const delayed = { state: "delayed", forgiven: 1, suspect: true };
  expect(afterRelease(call, { ...lost, maxAttempts: 3 }, 50, 0.5)).toEqual({ ...delayed, visibleAt: 1050 });
  expect(afterRelease(call, { ...lost, maxAttempts: 2 }, 50, 0.5)).toEqual({
    ...delayed,
    visibleAt: 900,
    suspect: false,
  });
});

test("A used up JobCall whose connection carried no other is a dead letter at once", () => {
  const call = { attempts: 3, forgiven: 1, visible_at: 900 };
  const lost = { excused: false, wasAlone: true, backoff, reason: "connection closed" };
  expect(afterRelease(call, { ...lost, maxAttempts: 3 }, 50, 0.5)).toMatchObject({ state: "delayed" });
  expect(afterRelease(call, { ...lost, maxAttempts: 2 }, 50, 0.5)).toEqual({
    state: "dead",
    reason: "max_attempts: connection closed",
  });
});

test("The bound of the delay doubles with each attempt, up to its maximum", () => {
  const bounds = [1, 2, 3, 9, 10, 2000].map((attempt) => retryDelayMs(backoff, attempt, 0.999_999_999));
  expect(bounds).toEqual([999, 1999, 3999, 255_999, 299_999, 299_999]);
});

test("The delay is the random part of its bound, in whole milliseconds", () => {
  expect([0, 0.25, 0.5].map((random) => retryDelayMs(backoff, 2, random))).toEqual([0, 500, 1000]);
  expect(retryDelayMs({ baseMs: 3, maxMs: 3 }, 1, 0.5)).toBe(1);
});
