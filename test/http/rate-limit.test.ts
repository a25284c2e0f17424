import { afterAll, beforeAll, expect, test } from "vitest";
import { endpoint, named, startWebhooks, type WebhooksUnderTest } from "../webhooks/harness.ts";

const limited = (path: string, rateLimitPerSecond: number) =>
  endpoint(path, { mode: "bearer", secrets: named("t0ken") }, { rateLimitPerSecond });

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await startWebhooks([limited("/a", 5), limited("/b", 5)]);
});
afterAll(() => webhooks?.stop());

const send = (path: string, token = "t0ken") =>
  webhooks.post(path, { authorization: `Bearer ${token}` }, "x");

test("Above rate_limit_per_second requests get 429 with Retry-After until the second is over, each endpoint by itself; refused credentials use up nothing of it", async () => {
  const refused = await Promise.all(Array.from({ length: 50 }, () => send("/a", "wrong")));
  expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([401]));

  const before = await webhooks.waiting();
  const answers = await Promise.all(Array.from({ length: 12 }, () => send("/a")));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 202)).toHaveLength(5);
  const limitedAnswers = answers.filter(({ status }) => status === 429);
  expect(limitedAnswers).toHaveLength(7);
  for (const { json, headers } of limitedAnswers)
    expect([json.code, headers["retry-after"]]).toEqual(["rate_limited", "1"]);
  expect(await webhooks.waiting()).toBe(before + 5);

  expect((await send("/b")).status).toBe(202);
  expect((await send("/a", "wrong")).status).toBe(401);
  await expect.poll(async () => (await send("/a")).status, { timeout: 3_000, interval: 100 }).toBe(202);
});
