import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { hexToBytes, keccak256 } from "viem";
import { onTestFinished } from "vitest";
import {
  GetJobPriceRequestSchema,
  GetJobPriceResponseSchema,
} from "../../../src/gen/pricing_engine/pricing_pb.ts";
import { EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { PricingServer } from "../../../src/parts/pricing-engine/pricing-server.ts";
import { solveChallenge } from "../../../src/parts/pricing-engine/proof-of-work.ts";
import type { FindQuotePayment } from "../../../src/parts/pricing-engine/quotes.ts";
import { accounts } from "../../helpers/accounts.ts";
import { startLog } from "../../helpers/log.ts";
import { startPricingEngine } from "../../helpers/pricing-engine.ts";

const BITS = 8;
export const PRICE = 10n ** 15n;
export const JOB = { serviceId: 1n, jobIndex: 0 };
export const bindAddress = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;

export const PAYMENT = {
  options: [
    {
      network: "eip155:84532",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      symbol: "USDC",
      amount: "3264000",
      payTo: accounts.payTo.address,
      scheme: "exact",
    },
  ],
  endpoint: "https://operator.example.com/x402/jobs/1/0",
} as const;

interface ServerSetup {
  readonly findPayment?: FindQuotePayment;
  /** Default: true. */
  readonly canCheckQuotes?: boolean;
}

/** A client that talks to jobgate, which talks to an engine. */
export async function startServer({ findPayment, canCheckQuotes = true }: ServerSetup = {}) {
  const engine = await startPricingEngine({ prices: { "1/0": PRICE }, difficulty: BITS });
  onTestFinished(() => engine.stop());
  const upstream = new EngineClient(engine.url);
  onTestFinished(() => upstream.stop());
  const { logger, lines } = startLog();
  const config = { bindAddress, ...(canCheckQuotes ? { signing: engine.signing } : {}) };
  const server = new PricingServer({
    config,
    client: upstream,
    logger,
    ...(findPayment ? { findPayment } : {}),
  });
  await server.start();
  onTestFinished(() => server.stop());
  const client = new EngineClient(`http://${server.address}`);
  onTestFinished(() => client.stop());
  const ask = (request = jobRequest(), options: Partial<Parameters<EngineClient["call"]>[2]> = {}) =>
    client.call("getJobPrice", request, { deadline: soon(), ...options });
  return { engine, server, client, ask, lines };
}

/** A deadline, by default one that is not meant to pass. */
export function soon(ms = 50_000): Date {
  return new Date(Date.now() + ms);
}

export function jobRequest(jobIndex = 0): Buffer {
  const request = create(GetJobPriceRequestSchema, {
    ...JOB,
    jobIndex,
    ...proofFor(1n),
    requester: hexToBytes(accounts.payer.address),
    inputsHash: hexToBytes(keccak256("0x")),
  });
  return Buffer.from(toBinary(GetJobPriceRequestSchema, request));
}

export function proofFor(id: bigint) {
  const timestamp = BigInt(Math.floor(Date.now() / 1000));
  const proofOfWork = solveChallenge({ id, timestamp, bits: BITS }, () => false) ?? new Uint8Array();
  return { challengeTimestamp: timestamp, proofOfWork };
}

/** An unknown field. */
export const UNKNOWN_FIELD = Buffer.concat([Buffer.from([0xa2, 0x06, 5]), Buffer.from("later")]);

export function parse(message: Buffer | undefined) {
  return fromBinary(GetJobPriceResponseSchema, message ?? new Uint8Array());
}
