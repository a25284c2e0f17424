import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type { QuoteSigning } from "../config/config.ts";
import type { Clock } from "../core/clock.ts";
import type { JobKey } from "../core/job-call.ts";
import { type GetJobPriceResponse, GetJobPriceResponseSchema } from "../gen/pricing_engine/pricing_pb.ts";
import { type JobQuote, readJobQuote, readUncheckedTerms } from "./job-quote.ts";

/** A quote on its way to who asked for it. */
export type ReceivedQuote = { readonly job: JobKey; readonly priceWei: bigint } & (
  | { readonly verified: true; readonly quote: JobQuote }
  /** There is nothing to check quotes with. */
  | { readonly verified: false }
);

/** How a quote can be paid over x402. */
export interface QuotePayment {
  readonly options: readonly QuoteSettlementOption[];
  /** URL. */
  readonly endpoint: string;
}

export interface QuoteSettlementOption {
  /** CAIP-2. */
  readonly network: string;
  readonly asset: string;
  readonly symbol: string;
  /** Token units, decimal. */
  readonly amount: string;
  readonly payTo: string;
  readonly scheme: "exact";
}

/** Says how a quote can be paid; undefined when it cannot be. */
export type PayWith = (quote: ReceivedQuote) => Promise<QuotePayment | undefined>;

export interface QuotePaymentOptions {
  readonly payWith: PayWith;
  /** Absent: quotes cannot be checked. */
  readonly signing?: QuoteSigning | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Tells who asked for a quote how to pay it: adds what the engine left empty of `settlement_options` and
 * `x402_endpoint`. The engine's own bytes stay as they are in front; protobuf merges messages that are joined.
 * A quote that is not the operator's, or of which nobody can say how to pay it, stays as it is.
 */
export function createQuotePaymentWriter({ payWith, signing, clock, logger }: QuotePaymentOptions) {
  async function received(response: GetJobPriceResponse): Promise<ReceivedQuote | undefined> {
    if (signing === undefined) {
      const terms = readUncheckedTerms(response);
      return terms && { job: jobOf(terms), priceWei: terms.priceWei, verified: false };
    }
    const read = await readJobQuote(response, signing, { nowMs: clock() });
    if (read.kind === "quote") {
      return { job: jobOf(read.quote), priceWei: read.quote.priceWei, verified: true, quote: read.quote };
    }
    logger.error(
      { reason: read.reason },
      "the pricing engine's quote cannot be paid: it is not the operator's",
    );
    return undefined;
  }

  async function missingFields(message: Buffer): Promise<Uint8Array> {
    const response = fromBinary(GetJobPriceResponseSchema, message);
    const quote = await received(response);
    // Also where the engine said all of it: from here on the quote can be paid.
    const payment = quote && (await payWith(quote));
    if (payment === undefined) return new Uint8Array();
    const fields = create(GetJobPriceResponseSchema, {
      settlementOptions: response.settlementOptions.length === 0 ? [...payment.options] : [],
      x402Endpoint: response.x402Endpoint === "" ? payment.endpoint : "",
    });
    return toBinary(GetJobPriceResponseSchema, fields);
  }

  return async (message: Buffer): Promise<Buffer> => {
    try {
      return Buffer.concat([message, await missingFields(message)]);
    } catch (error) {
      logger.error({ err: error }, "how to pay the pricing engine's quote could not be said");
      return message;
    }
  };
}

function jobOf({ serviceId, jobIndex }: JobKey): JobKey {
  return { serviceId, jobIndex };
}
