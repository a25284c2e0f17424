import type { JobKey } from "../../core/job-call.ts";

/** Terms that the operator signs: one run of a job, for one requester and one input, at a price, for a time. */
export interface JobQuoteTerms extends JobKey {
  /** Below 2^256. */
  readonly priceWei: bigint;
  /** Unix seconds at which it was made. */
  readonly timestamp: bigint;
  /** Unix seconds from which it is void. */
  readonly expiry: bigint;
  /** 0 any, 1 required, 2 preferred. */
  readonly confidentiality: number;
  /** Address in lower case. */
  readonly requester: `0x${string}`;
  /** Keccak-256 of the job's inputs, 32 bytes in lower case. */
  readonly inputsHash: `0x${string}`;
}

/** A quote of the operator's pricing engine whose signature was checked. */
export interface JobQuote extends JobQuoteTerms {
  /** Its EIP-712 digest: 64 lower-case hex digits, without `0x`. */
  readonly digest: string;
}

/** A quote on its way to the client that asked for it. */
export type ReceivedQuote = { readonly job: JobKey; readonly priceWei: bigint } & (
  | { readonly verified: true; readonly quote: JobQuote }
  /** The configuration has nothing to check quotes with. */
  | { readonly verified: false }
);

/** Ways to pay a quote over x402. */
export interface QuotePayment {
  readonly options: readonly {
    /** CAIP-2. */
    readonly network: string;
    readonly asset: string;
    readonly symbol: string;
    /** Token units, decimal. */
    readonly amount: string;
    readonly payTo: string;
    readonly scheme: string;
  }[];
  /** URL. */
  readonly endpoint: string;
}

/** Returns the ways to pay a quote; undefined when it cannot be paid. */
export type FindQuotePayment = (quote: ReceivedQuote) => Promise<QuotePayment | undefined>;
