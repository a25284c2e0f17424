import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Metadata, status } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { bytesToHex, hexToBytes, keccak256, numberToBytes } from "viem";
import { monotonicClock, systemClock } from "../../../src/core/clock.ts";
import {
  GetJobPriceRequestSchema,
  GetJobPriceResponseSchema,
} from "../../../src/gen/pricing_engine/pricing_pb.ts";
import type { EngineAnswer, EngineClient } from "../../../src/parts/pricing-engine/engine-client.ts";
import { EngineJobs } from "../../../src/parts/pricing-engine/engine-jobs.ts";
import { EnginePrices } from "../../../src/parts/pricing-engine/engine-prices.ts";
import { EngineQuotes } from "../../../src/parts/pricing-engine/engine-quotes.ts";
import { jobQuoteDigest } from "../../../src/parts/pricing-engine/job-quote.ts";
import type { ProofMaker } from "../../../src/parts/pricing-engine/proof-maker.ts";
import { QuotePaymentWriter } from "../../../src/parts/pricing-engine/quote-payment.ts";
import { QuoteSales } from "../../../src/parts/pricing-engine/quote-sales.ts";
import type { JobQuoteTerms } from "../../../src/parts/pricing-engine/quotes.ts";
import { QUOTES } from "../../../src/parts/pricing-engine/store/module.ts";
import type { Store } from "../../../src/store/store.ts";
import type { PriceSource } from "../../../src/x402/prices/price-source.ts";
import { PRICE } from "./laws.ts";
import type { Process, Simulation } from "./simulation.ts";
import { signHash } from "./viem.ts";

const OPERATOR = `0x${"0e".repeat(20)}` as const;
const STRANGER = `0x${"0d".repeat(20)}` as const;
export const SIGNING = {
  chainId: 84532,
  verifyingContract: `0x${"0c".repeat(20)}`,
  operatorAddress: OPERATOR,
} as const;
/** Price of a job, of which a quote asks for some multiple, and the price in a quote that is not the operator's, in wei. */
const [PRICE_WEI, FALSE_PRICE_WEI] = [1_000_000_000_000_000n, 500_000_000_000_000n];
const MULTIPLES = [1n, 2n, 3n] as const;
const LIFETIME_SECS = 30;
const CALL_MS = 5_000;

/** Asks for a quote at a gateway. @returns undefined when there is none */
export type AskQuote = (request: Buffer) => Promise<Buffer | undefined>;

/** A pricing engine that is slow, down, or says what the operator did not sign. */
export class Engine {
  readonly #simulation: Simulation;
  /** Prices in token units that the operator has signed, by the hash of the inputs. */
  readonly #signed = new Map<string, Set<bigint>>();

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  /** Reports whether the operator has signed a price for a body. @param amount token units */
  hasPriced(body: string, amount: bigint): boolean {
    return this.#signed.get(keccak256(Buffer.from(body)))?.has(amount) === true;
  }

  /** Connects a gateway. */
  connect(
    logger: Logger,
    store: Store,
  ): { readonly prices: PriceSource; readonly sales: QuoteSales; readonly askQuote: AskQuote } {
    const call: EngineClient["call"] = (_, request) => this.#call(request);
    const proofs: Pick<ProofMaker, "proofFor" | "drop" | "prefer"> = {
      proofFor: async () => ({ proof: new Uint8Array(), timestamp: 0n }),
      drop: () => undefined,
      prefer: () => undefined,
    };
    const client = { call } as EngineClient;
    const shared = { signing: SIGNING, clock: systemClock };
    const quotes = new EngineQuotes({ client, proofs, ...shared });
    const sales = new QuoteSales({ ledger: store.of(QUOTES), jobs: new EngineJobs(quotes, logger) });
    const writer = new QuotePaymentWriter({ findPayment: sales.findPayment, ...shared, logger });
    return {
      sales,
      prices: new EnginePrices({ quotes, clock: systemClock, elapsed: monotonicClock, logger }),
      askQuote: async (request) => {
        const { message } = await this.#call(request);
        return message && writer.amend(message, Date.now() + CALL_MS);
      },
    };
  }

  #call(request: Buffer): Promise<EngineAnswer> {
    const run = this.#simulation;
    const asker: Process = run.current;
    return new Promise((resolve) => {
      const fails = (code: number, delayMs: number) =>
        run.at(delayMs, asker, () => resolve(answerOf(code, undefined)));
      run.at(run.delay("to the engine", 0.2, 40), run.world, () => {
        if (run.fault("the pricing engine is down", 0.1)) return fails(status.UNAVAILABLE, 1);
        if (run.fault("the pricing engine stalls", 0.05)) return fails(status.DEADLINE_EXCEEDED, CALL_MS);
        const message = this.#quote(request);
        return run.at(run.delay("from the engine", 0.2, 900), asker, () =>
          resolve(answerOf(status.OK, message)),
        );
      });
    });
  }

  #quote(request: Buffer): Buffer {
    const run = this.#simulation;
    const { serviceId, jobIndex, requester, inputsHash } = fromBinary(GetJobPriceRequestSchema, request);
    const now = BigInt(Math.floor(run.wallMs / 1000));
    const isForged = run.fault("a stranger signs a quote", 0.1);
    const isChanged = !isForged && run.fault("a quote is changed on its way", 0.1);
    const isForAnother = !isForged && !isChanged && run.fault("a quote is for another job", 0.05);
    const isForOthers = !isForged && !isChanged && run.fault("a quote is for other inputs", 0.1);
    const multiple = run.pick("a quote asks for", MULTIPLES);
    const inputs = isForOthers ? numberToBytes(multiple, { size: 32 }) : inputsHash;
    const terms: JobQuoteTerms = {
      ...{ serviceId, jobIndex: isForAnother ? 0 : jobIndex, confidentiality: 0 },
      ...{ priceWei: isForged ? FALSE_PRICE_WEI : multiple * PRICE_WEI, timestamp: now },
      expiry: now + BigInt(LIFETIME_SECS),
      ...{ requester: bytesToHex(requester), inputsHash: bytesToHex(inputs) },
    };
    if (!isForged && !isForAnother) {
      const signed = this.#signed.get(terms.inputsHash) ?? new Set();
      this.#signed.set(terms.inputsHash, signed.add(multiple * PRICE));
    }
    const signature = signHash(isForged ? STRANGER : OPERATOR, `0x${jobQuoteDigest(terms, SIGNING)}`);
    const response = create(GetJobPriceResponseSchema, {
      quoteDetails: {
        ...terms,
        price: numberToBytes(isChanged ? FALSE_PRICE_WEI : terms.priceWei, { size: 32 }),
        requester,
        inputsHash: inputs,
      },
      signature: hexToBytes(signature),
    });
    return Buffer.from(toBinary(GetJobPriceResponseSchema, response));
  }
}

function answerOf(code: number, message: Buffer | undefined): EngineAnswer {
  const metadata = undefined as unknown as Metadata;
  return { message, status: { code, details: "", metadata }, isFromEngine: true };
}
