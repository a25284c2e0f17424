import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { BodySchema } from "../../../src/core/body-schema.ts";
import { monotonicClock } from "../../../src/core/clock.ts";
import { BodyChecks } from "../../../src/x402/purchase/body-checks.ts";

const started: BodyChecks[] = [];
afterEach(async () => {
  for (const checks of started.splice(0)) await checks.stop();
});
const startChecks = (clock = monotonicClock) => {
  const checks = new BodyChecks(clock);
  started.push(checks);
  return checks;
};
const toInput = async (schema: unknown) => {
  const text = JSON.stringify(schema);
  return { text, compiled: await BodySchema.compile(text) };
};
const PATTERN = { type: "string", pattern: "^(a+)+$" };
const TOO_SLOW = [{ path: "", message: "takes too long to check" }];
let bodies = 0;
/** Clients earn no time back, however long a busy machine takes. */
const stoppedClock = () => 0;
/** A body of 40 bytes that takes ages, and no other of which is the same. */
const slowBody = () => Buffer.from(JSON.stringify(`${"a".repeat(30)}!${++bodies}`.padEnd(38, "!")));

/** Checks a body as a client that waits as long as it has to. */
async function checkPatiently(
  checks: BodyChecks,
  ...[client, schema, body]: Parameters<BodyChecks["check"]>
) {
  for (let tries = 1; tries <= 20; tries++) {
    const outcome = await checks.check(client, schema, body);
    if (typeof outcome !== "number") return outcome;
    await sleep(outcome);
  }
  throw new Error("the body was never checked");
}

test("A body that takes too long is refused, and its outcome is kept for the request that pays", async () => {
  const checks = startChecks();
  const schema = await toInput(PATTERN);
  const body = slowBody();
  expect(await checkPatiently(checks, "a", schema, body)).toEqual(TOO_SLOW);
  for (let i = 0; i < 30; i++) expect(await checks.check("a", schema, body)).toEqual(TOO_SLOW);
});

test("A client that keeps sending slow bodies is told to wait; another client's fast body is checked", async () => {
  const checks = startChecks(stoppedClock);
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
  const checks = startChecks(stoppedClock);
  const schema = await toInput(PATTERN);
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, i) => checks.check(`client ${i}`, schema, slowBody())),
  );
  const checked = outcomes.filter((outcome) => typeof outcome !== "number");
  expect(checked.length).toBeGreaterThan(0);
  for (const outcome of checked) expect(outcome).toEqual(TOO_SLOW);
  expect(checked.length).toBeLessThan(outcomes.length);
});

test("A large body is checked whole, with an ordinary schema and with a costly one", async () => {
  const checks = startChecks();
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
    expect(await checkPatiently(checks, `${i}`, input, bodyOf(good, good))).toEqual([]);
    const problems = await checkPatiently(checks, `${i} again`, input, bodyOf(good, bad));
    expect(problems).toMatchObject([{ path: "/60000/id" }]);
  }
});

test("A thread that ends during a check rejects it, and the next body starts another thread", async () => {
  const checks = startChecks();
  const schema = await toInput(PATTERN);
  const checking = checks.check("a", schema, slowBody());
  const rejected = expect(checking).rejects.toThrow("the thread that checks bodies ended with code");
  await new Promise((resolve) => setImmediate(resolve));
  await checks.stop();
  await rejected;
  expect(await checkPatiently(checks, "b", schema, slowBody())).toEqual(TOO_SLOW);
});
