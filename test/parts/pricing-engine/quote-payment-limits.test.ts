import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { GetJobPriceResponseSchema } from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { QuotePaymentWriter } from "../../../src/parts/pricing-engine/quote-payment.ts";
import { startLog } from "../../helpers/log.ts";
import { PAYMENT, parse, soon, startServer } from "./pricing-server-harness.ts";

const QUOTE = Buffer.from(
  toBinary(
    GetJobPriceResponseSchema,
    create(GetJobPriceResponseSchema, {
      quoteDetails: {
        price: new Uint8Array(32),
        requester: new Uint8Array(20),
        inputsHash: new Uint8Array(32),
      },
    }),
  ),
);

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
  // It would end with DEADLINE_EXCEEDED if it waited for the payment options.
  const { message, status: ended } = await ask(undefined, { deadline: soon(20_000) });
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

test("Payment options that stall keep a call with little time left waiting for half of that time", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const { findPayment } = startStalledPayment();
  const writer = new QuotePaymentWriter({ findPayment, clock: systemClock, logger: startLog().logger });
  const answer = writer.amend(QUOTE, Date.now() + 600);
  await vi.advanceTimersByTimeAsync(300);
  expect(await answer).toBe(QUOTE);
});

test("At most 100 quotes a second get payment options; the others pass unchanged, with one warning", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  let asked = 0;
  const { logger, lines } = startLog();
  const writer = new QuotePaymentWriter({
    async findPayment() {
      asked++;
      return PAYMENT;
    },
    clock: systemClock,
    logger,
  });
  const amended = async (count: number) => {
    const answers = await Promise.all(
      Array.from({ length: count }, () => writer.amend(QUOTE, Date.now() + 30_000)),
    );
    return answers.filter((answer) => !answer.equals(QUOTE)).length;
  };
  expect(await amended(400)).toBe(100);
  expect(asked).toBe(100);
  expect(lines).toEqual([
    expect.objectContaining({ level: 40, msg: expect.stringContaining("too many quotes") as string }),
  ]);

  vi.advanceTimersByTime(1_000);
  expect(await amended(1)).toBe(1);
});
