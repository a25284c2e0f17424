import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { endpoint, named, startWebhooks } from "./harness.ts";

const limited = (path: string, rateLimitPerSecond: number) =>
  endpoint(path, { mode: "bearer", secrets: named("t0ken") }, { rateLimitPerSecond });

const webhooks = startBeforeAll(() => startWebhooks([]));

// The second ends when a test says so, however slow the machine is.
beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());
const endSecond = () => vi.advanceTimersByTimeAsync(1_000);

const send = (path: string, token = "t0ken") =>
  webhooks.post(path, { authorization: `Bearer ${token}` }, "x");

test("Requests above rate_limit_per_second get 429 with Retry-After until the second is over, counted for each endpoint", async () => {
  webhooks.use([limited("/a", 5), limited("/b", 5)]);
  const before = await webhooks.waiting();
  const answers = await Promise.all(Array.from({ length: 12 }, () => send("/a")));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 202)).toHaveLength(5);
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(7);
  for (const { json, headers } of refused)
    expect([json.code, headers["retry-after"]]).toEqual(["rate_limited", "1"]);
  expect(await webhooks.waiting()).toBe(before + 5);

  expect((await send("/b")).status).toBe(202);
  expect((await send("/a", "wrong")).status).toBe(401);
  await endSecond();
  expect((await send("/a")).status).toBe(202);
});

test("A request with a wrong secret does not count", async () => {
  webhooks.use([limited("/wrong", 1)]);
  const refused = await Promise.all(Array.from({ length: 50 }, () => send("/wrong", "wrong")));
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([401]));
  expect((await send("/wrong")).status).toBe(202);
});

test("A reload keeps the counts and applies the new limit", async () => {
  webhooks.use([limited("/reloaded", 2)]);
  expect((await send("/reloaded")).status).toBe(202);
  expect((await send("/reloaded")).status).toBe(202);
  webhooks.use([limited("/reloaded", 2)]);
  expect((await send("/reloaded")).status).toBe(429);
  webhooks.use([limited("/reloaded", 4)]);
  expect((await send("/reloaded")).status).toBe(202);
  expect((await send("/reloaded")).status).toBe(429);
});
