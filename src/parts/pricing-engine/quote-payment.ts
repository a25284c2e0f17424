import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Logger } from "pino";
import type { Clock } from "../../core/clock.ts";
import type { JobKey } from "../../core/job-call.ts";
import { within } from "../../core/waiting.ts";
import { type GetJobPriceResponse, GetJobPriceResponseSchema } from "../../gen/pricing_engine/pricing_pb.ts";
import { RateLimit } from "../../http/limits.ts";
import type { QuoteSigning } from "./config.ts";
import { readJobQuote, readUncheckedTerms } from "./job-quote.ts";
import type { FindQuotePayment, ReceivedQuote } from "./quotes.ts";

/** Longest time that an answer waits for its payment options. */
const MAX_WAIT_MS = 1_000;
/**
 * Most answers that are amended in a second. Each costs a signature check of some milliseconds and a row in the store,
 * and one proof of work buys any number of answers.
 */
const MAX_PER_SECOND = 100;
const SECS_BETWEEN_WARNINGS = 10;

interface Parts {
  readonly findPayment: FindQuotePayment;
  readonly signing?: QuoteSigning | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Adds payment options to quotes that pass through, where the engine left them empty: `settlement_options` and
 * `x402_endpoint`. The engine's own bytes stay in front unchanged; protobuf merges joined messages. A quote that is not
 * the operator's, or that cannot be paid, stays as it is.
 *
 * An answer without payment options is worth more than no answer, so at most 100 answers a second are amended, each
 * within a second and within half of the time that its call has left.
 */
export class QuotePaymentWriter {
  readonly #parts: Parts;
  readonly #rateLimit = new RateLimit();
  readonly #warningLimit = new RateLimit(SECS_BETWEEN_WARNINGS);

  /** @param parts without `signing`, quotes are not checked */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Returns the answer with payment options, or the unchanged answer. Never rejects.
   * @param message a GetJobPriceResponse
   * @param deadlineMs Unix milliseconds after which the answer is not used
   */
  async amend(message: Buffer, deadlineMs: number): Promise<Buffer> {
    if (this.#rateLimit.exceeded("all", MAX_PER_SECOND) === undefined) {
      return this.#amendInTime(message, deadlineMs);
    }
    if (this.#warningLimit.exceeded("all", 1) === undefined) {
      this.#parts.logger.warn(
        { maxPerSecond: MAX_PER_SECOND },
        "too many quotes a second: passing those above the limit on without payment options",
      );
    }
    return message;
  }

  async #amendInTime(message: Buffer, deadlineMs: number): Promise<Buffer> {
    const waitMs = Math.max(0, Math.min(MAX_WAIT_MS, (deadlineMs - Date.now()) / 2));
    const amended = await within(waitMs, this.#withPayment(message));
    if (amended === undefined) {
      this.#parts.logger.warn(
        { waitMs },
        "payment options not found in time: passing the quote on without them",
      );
    }
    return amended ?? message;
  }

  async #withPayment(message: Buffer): Promise<Buffer> {
    try {
      return Buffer.concat([message, await this.#missingFields(message)]);
    } catch (error) {
      this.#parts.logger.error({ err: error }, "could not add payment options to the quote");
      return message;
    }
  }

  async #missingFields(message: Buffer): Promise<Uint8Array> {
    const response = fromBinary(GetJobPriceResponseSchema, message);
    const quote = await this.#read(response);
    // The payment is looked up even if the engine set both fields, because the lookup makes the quote payable.
    const payment = quote && (await this.#parts.findPayment(quote));
    if (payment === undefined) return new Uint8Array();
    const fields = create(GetJobPriceResponseSchema, {
      settlementOptions: response.settlementOptions.length === 0 ? [...payment.options] : [],
      x402Endpoint: response.x402Endpoint === "" ? payment.endpoint : "",
    });
    return toBinary(GetJobPriceResponseSchema, fields);
  }

  async #read(response: GetJobPriceResponse): Promise<ReceivedQuote | undefined> {
    if (this.#parts.signing === undefined) {
      const terms = readUncheckedTerms(response);
      return terms && { job: jobOf(terms), priceWei: terms.priceWei, verified: false };
    }
    const read = await readJobQuote(response, this.#parts.signing, this.#parts.clock());
    if (read.kind === "quote") {
      return { job: jobOf(read.quote), priceWei: read.quote.priceWei, verified: true, quote: read.quote };
    }
    if (read.kind === "expired") {
      this.#parts.logger.warn(
        { reason: read.reason },
        "pricing engine's quote has expired: passing it on without payment options",
      );
    } else {
      this.#parts.logger.error(
        { reason: read.reason },
        "pricing engine's quote is not the operator's: passing it on without payment options",
      );
    }
    return undefined;
  }
}

function jobOf({ serviceId, jobIndex }: JobKey): JobKey {
  return { serviceId, jobIndex };
}
