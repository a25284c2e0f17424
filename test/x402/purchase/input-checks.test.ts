import { describe, expect, it } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { startAnotherGateway, startTestGateway } from "../gateway-harness.ts";
import { JOB } from "../payments.ts";

const withSchema = (schema: unknown): Job => ({
  ...JOB,
  input: { contentType: "application/json", schema: JSON.stringify(schema) },
});

describe("A job with an input schema", () => {
  const jobs = [withSchema({ type: "object", required: ["text"], properties: { text: { type: "string" } } })];
  const gateway = startBeforeAll(() => startTestGateway({ config: { jobs } }));
  /** Cannot be read: a request that it is looked at in gets 400. */
  const payment = { "payment-signature": "not a payment" };
  const wrong = { body: '{"text":1}' };

  it("Refuses a body that does not match before it looks at the payment", async () => {
    for (const headers of [{}, payment]) {
      const { status, body } = await gateway.post(headers, wrong);
      expect([status, body]).toEqual([
        422,
        {
          error: "The body does not match the job's input schema: /text must be string. Nothing was charged.",
          code: "invalid_input",
          charged: false,
          retryable: false,
          invalid: [{ path: "/text", message: "must be string" }],
        },
      ]);
    }
    expect(await gateway.post(payment, { body: '{"text":"a"}' })).toMatchObject({
      status: 400,
      body: { code: "invalid_payment" },
    });
  });

  it("Offers itself for a body that matches; a job without a schema takes any body", async () => {
    expect((await gateway.post({}, { body: '{"text":"a"}' })).status).toBe(402);
    expect((await gateway.post({}, { job: 1, body: "any" })).status).toBe(402);
  });

  it("Offers itself to a question without a body, and refuses a payment without one", async () => {
    expect((await gateway.post({}, { body: "" })).status).toBe(402);
    expect(await gateway.post(payment, { body: "" })).toMatchObject({
      status: 422,
      body: { code: "invalid_input" },
    });
  });

  it("Takes another schema on a reload, and keeps the old one if the new one is invalid", async () => {
    const another = await startAnotherGateway({ config: { jobs } });
    await expect(another.reload({ jobs: [withSchema({ type: "objekt" })] })).rejects.toThrow(
      /is invalid: \/type/,
    );
    expect((await another.post({}, wrong)).status).toBe(422);
    await another.reload({ jobs: [withSchema({ type: "object" })] });
    expect((await another.post({}, wrong)).status).toBe(402);
  });

  it("Answers 429 to a client whose bodies take too long, with a payment or without, and offers itself to others", async () => {
    const trustedProxies = [{ address: "127.0.0.1", prefixBits: 32, family: "ipv4" }] as const;
    const slow = [withSchema({ type: "string", pattern: "^(a+)+$" })];
    // Clients earn no time back, however long a busy machine takes.
    const now = Date.now();
    const shop = await startAnotherGateway({ config: { jobs: slow, trustedProxies }, clock: () => now });
    const from = (client: string) => ({ "x-forwarded-for": client });
    const send = (i: number, headers: Record<string, string>) =>
      shop.post({ ...from("192.0.2.1"), ...headers }, { body: JSON.stringify(`${"a".repeat(30)}!${i}`) });
    const answers = [];
    for (let i = 0; i < 20; i++) answers.push(await send(i, i % 2 === 0 ? {} : payment));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([422, 429]));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(10);
    for (const { headers, body } of refused) {
      expect(body).toMatchObject({ code: "rate_limited", charged: false, retryable: true });
      expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    }
    const others = Array.from({ length: 10 }, (_, i) => shop.post(from(`192.0.2.1${i}`), { body: '"aa"' }));
    const statuses = (await Promise.all(others)).map(({ status }) => status);
    // A busy machine may take longer for some of them.
    expect(statuses.filter((status) => status === 402).length).toBeGreaterThan(0);
  });

  it("Counts refused bodies as unpaid requests", async () => {
    const limits = { maxUnpaidPerSecondPerClient: 1, maxVerifiesPerClient: 1, maxVerifies: 1 };
    const limited = await startAnotherGateway({ config: { jobs, limits } });
    const answers = await Promise.all(Array.from({ length: 50 }, () => limited.post({}, wrong)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([422, 429]));
  });
});

it("A job with a limit of its own takes bodies up to that, and others up to the gateway's", async () => {
  const jobs: Job[] = [{ ...JOB, maxBodyBytes: 2_000 }];
  const shop = await startAnotherGateway({ config: { jobs, maxBodyBytes: 1_000 } });
  const statusOf = async (job: number, length: number) =>
    (await shop.post({}, { job, body: "x".repeat(length) })).status;
  expect([await statusOf(0, 2_000), await statusOf(0, 2_001)]).toEqual([402, 413]);
  expect([await statusOf(1, 1_000), await statusOf(1, 1_001)]).toEqual([402, 413]);
  await shop.reload({ jobs: [{ ...JOB, maxBodyBytes: 10 }] });
  expect([await statusOf(0, 10), await statusOf(0, 11)]).toEqual([402, 413]);
});
