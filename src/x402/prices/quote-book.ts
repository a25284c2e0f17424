import { keccak } from "hash-wasm";
import { GatewayError } from "../../core/errors.ts";
import { equalJobs, type JobKey } from "../../core/job-call.ts";
import type { JobQuote } from "../../pricing/job-quote.ts";
import type { QuoteLedger } from "../../store/contract/price-ledgers.ts";
import { formatOffer, type Offer, parseOffer } from "../wire/offer.ts";

/** A signed quote that one client may pay, for one run of a job. */
export interface PayableQuote {
  readonly digest: string;
  readonly job: JobKey;
  /** Who asked for it, and so has to pay; lower case. */
  readonly requester: string;
  /** Keccak-256 of the body that it is for, with `0x`. */
  readonly inputsHash: string;
  /** What it can be paid with, as its requester was told. */
  readonly offers: readonly Offer[];
}

/** Who wants to redeem a quote, and for what. */
export interface Redemption {
  readonly job: JobKey;
  readonly body: Uint8Array;
  /** Whose money it is, in lower case; undefined while nobody has signed anything. */
  readonly payer: string | undefined;
}

/** The pricing engine's quotes that went through this gateway, kept until they expire. */
export interface QuoteBook {
  /**
   * Makes a quote payable. One that was given before keeps what was offered then.
   * @returns what it can be paid with
   */
  give(quote: JobQuote, offers: readonly Offer[]): Promise<readonly Offer[]>;
  /** @throws GatewayError `quote_not_found`, `quote_mismatch`, `quote_conflict` */
  redeem(digest: string | undefined, redemption: Redemption): Promise<PayableQuote>;
  /**
   * Whether there is such a quote of a job, and it has not expired. Not whether it was paid: that is for the write which
   * begins a payment to say, since it may have been by this very payment.
   * @throws GatewayError `quote_not_found`, `quote_mismatch`
   */
  readonly checkOpen: (digest: string | undefined, job: JobKey) => Promise<void>;
}

export function createQuoteBook(ledger: QuoteLedger): QuoteBook {
  async function find(digest: string | undefined) {
    const found = digest === undefined ? undefined : await ledger.findQuote(digest);
    if (found === undefined) {
      throw new GatewayError(
        "quote_not_found",
        "No open quote has this digest: it was not given here, or it has expired. Ask for a new one.",
      );
    }
    return found;
  }

  return {
    async give(quote, offers) {
      const { digest, requester, inputsHash, expiry } = quote;
      const job = { serviceId: quote.serviceId, jobIndex: quote.jobIndex };
      const saved = await ledger.saveQuote({
        digest,
        quote: formatQuote({ digest, job, requester, inputsHash, offers }),
        // As signed it may be up to 2^64 - 1: this is 285 million years.
        expiresAt: Math.min(Number(expiry) * 1000, Number.MAX_SAFE_INTEGER),
      });
      return parseQuote(saved.quote).offers;
    },

    async redeem(digest, redemption) {
      const found = await find(digest);
      const quote = parseQuote(found.quote);
      await checkRedemption(quote, redemption);
      if (found.isPaid) throw quotePaid();
      return quote;
    },

    async checkOpen(digest, job) {
      checkJob(parseQuote((await find(digest)).quote), job);
    },
  };
}

/** The refusal of a second payment for one quote. */
export function quotePaid(): GatewayError {
  return new GatewayError("quote_conflict", "This quote has been paid for: ask for a new one.");
}

async function checkRedemption(quote: PayableQuote, { job, body, payer }: Redemption): Promise<void> {
  checkJob(quote, job);
  if (`0x${await keccak(body, 256)}` !== quote.inputsHash) {
    throw mismatch("This quote is for other inputs: the keccak-256 of the body must be its inputs_hash.");
  }
  if (payer !== undefined && payer !== quote.requester) {
    throw mismatch("This quote is for another payer: whoever asked for it has to pay it.");
  }
}

function checkJob(quote: PayableQuote, job: JobKey): void {
  if (!equalJobs(quote.job, job)) throw mismatch("This quote is for another job.");
}

function mismatch(message: string): GatewayError {
  return new GatewayError("quote_mismatch", message);
}

function formatQuote({ offers, job, ...rest }: PayableQuote): string {
  const { serviceId, jobIndex } = job;
  return JSON.stringify({
    ...rest,
    job: { serviceId: serviceId.toString(), jobIndex },
    offers: offers.map(formatOffer),
  });
}

function parseQuote(text: string): PayableQuote {
  const { offers, job, ...rest } = JSON.parse(text);
  return {
    ...rest,
    job: { serviceId: BigInt(job.serviceId), jobIndex: job.jobIndex },
    offers: offers.map(parseOffer),
  };
}
