import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { PAYMENT, parse, soon, startServer } from "./pricing-server-harness.ts";

/** Says how to pay, once it is let go. */
function startStalledPayment() {
  let letGo = () => {};
  const stalled = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  return {
    letGo,
    async findPayment() {
      await stalled;
      return PAYMENT;
    },
  };
}

test("A quote passes unchanged, with a warning, when its payment options take more than a second", async () => {
  const { findPayment, letGo } = startStalledPayment();
  const { engine, ask, lines } = await startServer({ findPayment });
  const started = performance.now();
  const { message, status: ended } = await ask(undefined, { deadline: soon(10_000) });
  expect(performance.now() - started).toBeLessThan(3_000);
  expect(ended.code).toBe(status.OK);
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  expect(lines).toEqual([
    expect.objectContaining({
      level: 40,
      msg: expect.stringContaining("payment options not found in time") as string,
    }),
  ]);
  letGo();
  expect(parse((await ask()).message).x402Endpoint).toBe(PAYMENT.endpoint);
});

test("A call with little time left is answered before its deadline, even if payment options stall", async () => {
  const { findPayment } = startStalledPayment();
  const { engine, ask } = await startServer({ findPayment });
  const { message, status: ended } = await ask(undefined, { deadline: soon(700) });
  expect(ended.code).toBe(status.OK);
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
});

test("At most 100 quotes a second get payment options; the others pass unchanged, with one warning", async () => {
  let asked = 0;
  const { engine, ask, lines } = await startServer({
    async findPayment() {
      asked++;
      return PAYMENT;
    },
  });
  const { message: quote = Buffer.alloc(0) } = await startServer().then((plain) => plain.ask());
  // The engine's own work is done once, because it is not measured.
  engine.faults.rawAnswer = quote;
  const started = performance.now();
  const answers = await Promise.all(
    Array.from({ length: 400 }, () => ask(undefined, { deadline: soon(30_000) })),
  );
  const seconds = Math.ceil((performance.now() - started) / 1_000);
  expect(answers.map(({ status: { code } }) => code)).toEqual(Array(400).fill(status.OK));
  const unchanged = answers.filter(({ message }) => message?.equals(quote));
  expect(asked).toBe(400 - unchanged.length);
  expect(asked).toBeGreaterThanOrEqual(100);
  expect(asked).toBeLessThanOrEqual(100 * seconds);
  expect(lines).toEqual([
    expect.objectContaining({ level: 40, msg: expect.stringContaining("too many quotes") as string }),
  ]);

  await expect.poll(async () => (await ask()).message?.equals(quote), { timeout: 3_000 }).toBe(false);
});
