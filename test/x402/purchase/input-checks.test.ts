import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeEach, describe, expect, it, test } from "vitest";
import type { Job } from "../../../src/config/config.ts";
import { BodySchema } from "../../../src/core/body-schema.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import { BodyChecks } from "../../../src/x402/purchase/input-checks.ts";
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
    expect(await gateway.post((await gateway.sign(0)).headers, { body: "" })).toMatchObject({
      status: 422,
      body: { code: "invalid_input" },
    });
    // A payment that cannot be read pays for nothing.
    expect(await gateway.post(payment, { body: "" })).toMatchObject({
      status: 400,
      body: { code: "invalid_payment" },
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

/** One thread checks for all tests. Before each, all clients have long earned their time back. */
const checks = new BodyChecks(() => aheadMs + (stoppedAt ?? monotonicClock()));
let aheadMs = 0;
let stoppedAt: number | undefined;
beforeEach(() => {
  aheadMs += 3_600_000;
  stoppedAt = undefined;
});
afterAll(() => checks.stop());
const toInput = async (schema: unknown) => {
  const text = JSON.stringify(schema);
  return { text, compiled: await BodySchema.compile(text) };
};
const PATTERN = { type: "string", pattern: "^(a+)+$" };
const TOO_SLOW = [{ path: "", message: "takes too long to check" }];
let bodies = 0;
/** Stops the clock, so that clients earn no time back on a busy machine. */
const stopClock = () => {
  stoppedAt = monotonicClock();
};
/** A body of 40 bytes that takes ages, and no other of which is the same. */
const slowBody = () => Buffer.from(JSON.stringify(`${"a".repeat(30)}!${++bodies}`.padEnd(38, "!")));

/** Checks a body as a client that waits as long as it has to. */
async function checkPatiently(...[client, schema, body]: Parameters<BodyChecks["check"]>) {
  for (let tries = 1; tries <= 20; tries++) {
    const outcome = await checks.check(client, schema, body);
    if (typeof outcome !== "number") return outcome;
    await sleep(outcome);
  }
  throw new Error("the body was never checked");
}

test("A body that takes too long is refused, and its outcome is kept for the request that pays", async () => {
  const schema = await toInput(PATTERN);
  const body = slowBody();
  expect(await checkPatiently("a", schema, body)).toEqual(TOO_SLOW);
  for (let i = 0; i < 30; i++) expect(await checks.check("a", schema, body)).toEqual(TOO_SLOW);
});

test("A client that keeps sending slow bodies is told to wait; another client's fast body is checked", async () => {
  stopClock();
  const schema = await toInput(PATTERN);
  const outcomes = [];
  for (let i = 0; i < 20; i++) outcomes.push(await checks.check("a", schema, slowBody()));
  const waits = outcomes.filter((outcome) => typeof outcome === "number");
  expect(waits.length).toBeGreaterThan(10);
  for (const ms of waits) expect(ms).toBeGreaterThan(0);
  expect(await checks.check("a", schema, Buffer.from('"aa"'))).toEqual(expect.any(Number));
  // A busy machine may take longer for some of them.
  const fast = Array.from({ length: 20 }, (_, i) => checks.check(`b ${i}`, schema, Buffer.from('"aa"')));
  expect((await Promise.all(fast)).filter((outcome) => typeof outcome === "object").length).toBeGreaterThan(
    10,
  );
});

test("Slow bodies that come at once wait for each other, and those beyond the time are refused", async () => {
  stopClock();
  const schema = await toInput(PATTERN);
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, i) => checks.check(`client ${i}`, schema, slowBody())),
  );
  const checked = outcomes.filter((outcome) => typeof outcome !== "number");
  expect(checked.length).toBeGreaterThan(0);
  for (const outcome of checked) expect(outcome).toEqual(TOO_SLOW);
  expect(checked.length).toBeLessThan(outcomes.length);
});

describe("Bodies that are read for a price", () => {
  const large = new Uint8Array(64 * 1024);
  /** Takes 5 ms of CPU time. */
  const slow = () => {
    const before = process.cpuUsage();
    for (;;) {
      const { user, system } = process.cpuUsage(before);
      if (user + system > 5_000) return "read";
    }
  };
  const refused = expect.objectContaining({ code: "rate_limited" });

  it("Use the time of their client, which then waits with checks as well; small ones use none", async () => {
    stopClock();
    for (let i = 0; i < 100; i++) expect(checks.read("a", large.subarray(0, 16 * 1024), () => i)).toBe(i);
    expect(() => {
      for (let i = 0; i < 12; i++) checks.read("a", large, slow);
    }).toThrow(refused);
    expect(await checks.check("a", await toInput(PATTERN), slowBody())).toEqual(expect.any(Number));
    expect(checks.read("a", large.subarray(0, 100), () => "small")).toBe("small");
    aheadMs += 3_000;
    expect(checks.read("a", large, slow)).toBe("read");
  });

  it("Use the time of all clients together", () => {
    stopClock();
    expect(() => {
      for (let i = 0; i < 25; i++) checks.read(`client ${i}`, large, slow);
    }).toThrow(refused);
    expect(checks.read("another", large.subarray(0, 100), () => "small")).toBe("small");
  });
});

test("A large body is checked whole, with an ordinary schema and with a costly one", async () => {
  const items = { type: "array", items: { type: "object", properties: { id: { type: "integer" } } } };
  const node = { type: "object", properties: { id: { type: "string", pattern: "^[0-9]+$" } } };
  const tree = { $ref: "#/$defs/list", $defs: { list: { type: "array", items: node } } };
  const bodyOf = (id: unknown, last: unknown) =>
    Buffer.from(JSON.stringify([...Array.from({ length: 60_000 }, () => ({ id })), { id: last }]));
  for (const [i, [schema, good, bad]] of (
    [
      [items, 12345, "x"],
      [tree, "12345", "x"],
    ] as const
  ).entries()) {
    const input = await toInput(schema);
    expect(bodyOf(good, good).byteLength).toBeGreaterThan(750_000);
    expect(await checkPatiently(`${i}`, input, bodyOf(good, good))).toEqual([]);
    const problems = await checkPatiently(`${i} again`, input, bodyOf(good, bad));
    expect(problems).toMatchObject([{ path: "/60000/id" }]);
  }
});

test("A thread that ends during a check rejects it, and the next body starts another thread", async () => {
  const schema = await toInput(PATTERN);
  const checking = checks.check("a", schema, slowBody());
  const rejected = expect(checking).rejects.toThrow("the thread that checks bodies ended with code");
  await new Promise((resolve) => setImmediate(resolve));
  await checks.stop();
  await rejected;
  expect(await checkPatiently("b", schema, slowBody())).toEqual(TOO_SLOW);
});
