import { create } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { GetJobPriceResponseSchema } from "../../../src/gen/pricing_engine/pricing_pb.ts";
import type { ReceivedQuote } from "../../../src/parts/pricing-engine/quotes.ts";
import { accounts } from "../../helpers/accounts.ts";
import { JOB, PAYMENT, PRICE, parse, startServer } from "./pricing-server-harness.ts";

test("A quote that can be paid gets payment options behind the engine's unchanged bytes", async () => {
  const received: ReceivedQuote[] = [];
  const { engine, ask } = await startServer({
    async findPayment(quote) {
      received.push(quote);
      return PAYMENT;
    },
  });
  const { message } = await ask();
  const sent = engine.calls[0]?.response ?? Buffer.alloc(0);
  expect(message?.subarray(0, sent.length).equals(sent)).toBe(true);
  const { settlementOptions, x402Endpoint, ...rest } = parse(message);
  expect(settlementOptions).toEqual([expect.objectContaining(PAYMENT.options[0])]);
  expect(x402Endpoint).toBe(PAYMENT.endpoint);
  const { settlementOptions: none, x402Endpoint: nowhere, ...original } = parse(sent);
  expect([none, nowhere]).toEqual([[], ""]);
  expect(rest).toEqual(original);
  expect(received).toEqual([
    {
      job: JOB,
      priceWei: PRICE,
      verified: true,
      quote: expect.objectContaining({ requester: accounts.payer.address.toLowerCase() }) as unknown,
    },
  ]);
});

test("Without x402, or for a job that is not for sale, an answer passes unchanged", async () => {
  const answers = [await startServer(), await startServer({ findPayment: async () => undefined })];
  for (const { engine, ask } of answers) {
    const { message, status: ended } = await ask();
    expect(ended.code).toBe(status.OK);
    expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  }
});

test("Fields that the engine set stay unchanged", async () => {
  const option = {
    network: "eip155:1",
    asset: "0x1",
    symbol: "OWN",
    amount: "1",
    payTo: "0x2",
    scheme: "own",
  };
  const own = create(GetJobPriceResponseSchema, { settlementOptions: [option], x402Endpoint: "https://own" });
  const { engine, ask } = await startServer({ findPayment: async () => PAYMENT });
  engine.faults.tamper = (response) => {
    response.settlementOptions = own.settlementOptions;
    response.x402Endpoint = own.x402Endpoint;
  };
  const both = await ask();
  expect(both.message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);

  engine.faults.tamper = (response) => {
    response.settlementOptions = own.settlementOptions;
  };
  const onlyOptions = parse((await ask()).message);
  expect(onlyOptions.settlementOptions.map(({ symbol }) => symbol)).toEqual(["OWN"]);
  expect(onlyOptions.x402Endpoint).toBe(PAYMENT.endpoint);

  engine.faults.tamper = (response) => {
    response.x402Endpoint = own.x402Endpoint;
  };
  const onlyEndpoint = parse((await ask()).message);
  expect(onlyEndpoint.settlementOptions.map(({ symbol }) => symbol)).toEqual(["USDC"]);
  expect(onlyEndpoint.x402Endpoint).toBe("https://own");
});

test("A quote that is not the operator's passes unchanged and logs an error", async () => {
  let asked = 0;
  const { engine, ask, lines } = await startServer({
    async findPayment() {
      asked++;
      return PAYMENT;
    },
  });
  engine.faults.signer = accounts.stranger;
  const { message } = await ask();
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  expect(lines).toEqual([
    expect.objectContaining({ level: 50, reason: expect.stringContaining("is not signed by") as string }),
  ]);
  expect(asked).toBe(0);
});

test("A quote that has expired goes through with nothing added, and the log calls it expired", async () => {
  const { engine, ask, lines } = await startServer({ findPayment: async () => PAYMENT });
  engine.quoteLifetimeSecs = 0;
  const { message } = await ask();
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  expect(lines).toEqual([
    expect.objectContaining({ level: 40, msg: expect.stringContaining("quote has expired") as string }),
  ]);
});

test("Without signing configuration, quotes are marked as unverified", async () => {
  const received: ReceivedQuote[] = [];
  const { engine, ask } = await startServer({
    canCheckQuotes: false,
    async findPayment(quote) {
      received.push(quote);
      return PAYMENT;
    },
  });
  engine.faults.signer = accounts.stranger;
  expect(parse((await ask()).message).x402Endpoint).toBe(PAYMENT.endpoint);
  expect(received).toEqual([{ job: JOB, priceWei: PRICE, verified: false }]);
});

test("An answer passes unchanged when finding payment options fails, or when it is malformed", async () => {
  const { engine, ask, lines } = await startServer({
    findPayment: () => Promise.reject(new Error("the store is gone")),
  });
  const { message } = await ask();
  expect(message?.equals(engine.calls[0]?.response ?? Buffer.alloc(0))).toBe(true);
  engine.faults.rawAnswer = Buffer.from("not protobuf");
  expect((await ask()).message?.toString()).toBe("not protobuf");
  expect(lines.map(({ level }) => level)).toEqual([50, 50]);
});
