import { bytesToBigInt, bytesToHex, hashTypedData } from "viem";
import { recoverSigner } from "../../chain/account-signature.ts";
import type { GetJobPriceResponse, JobQuoteDetails } from "../../gen/pricing_engine/pricing_pb.ts";
import type { JobPrice } from "../../x402/prices/price-source.ts";
import type { QuoteSigning } from "./config.ts";
import type { JobQuote, JobQuoteTerms } from "./quotes.ts";

/** The EIP-712 domain in which quotes are signed. */
type QuoteDomain = Pick<QuoteSigning, "chainId" | "verifyingContract">;

/** EIP-712 type, as in the operator's contract. */
const TYPES = {
  JobQuoteDetails: [
    { name: "requester", type: "address" },
    { name: "serviceId", type: "uint64" },
    { name: "jobIndex", type: "uint8" },
    { name: "price", type: "uint256" },
    { name: "timestamp", type: "uint64" },
    { name: "expiry", type: "uint64" },
    { name: "confidentiality", type: "uint8" },
    { name: "inputsHash", type: "bytes32" },
  ],
} as const;

/** Highest job index that a quote can be for, because the index is signed as uint8. */
export const MAX_QUOTED_JOB_INDEX = 255;
const MAX_U8 = 255;

/** Returns the typed data that an operator signs for a quote. */
export function jobQuoteTypedData(terms: JobQuoteTerms, { chainId, verifyingContract }: QuoteDomain) {
  const { serviceId, jobIndex, priceWei, timestamp, expiry, confidentiality, requester, inputsHash } = terms;
  return {
    domain: { name: "TangleQuote", version: "1", chainId, verifyingContract },
    types: TYPES,
    primaryType: "JobQuoteDetails",
    message: {
      requester,
      serviceId,
      jobIndex,
      price: priceWei,
      timestamp,
      expiry,
      confidentiality,
      inputsHash,
    },
  } as const;
}

/** Returns the EIP-712 digest of a quote: 64 lower-case hex digits, without `0x`. */
export function jobQuoteDigest(terms: JobQuoteTerms, domain: QuoteDomain): string {
  return hashTypedData(jobQuoteTypedData(terms, domain)).slice(2);
}

/** A verified quote, or the reason why it is refused: a clause for the log that follows "the quote". */
type ReadQuote =
  | { readonly kind: "quote"; readonly quote: JobQuote }
  | { readonly kind: "expired" | "refused"; readonly reason: string };

/**
 * Reads an engine's answer and checks that it is an unexpired quote that the operator signed, in every field.
 * @param nowMs Unix milliseconds
 */
export async function readJobQuote(
  response: GetJobPriceResponse,
  signing: QuoteSigning,
  nowMs: number,
): Promise<ReadQuote> {
  const read = readTerms(response.quoteDetails);
  if (typeof read === "string") return refused(read);
  if (read.expiry < read.timestamp) return refused("expires before it was made");
  const operator = signing.operatorAddress.toLowerCase();
  if (response.operatorId.length > 0 && bytesToHex(response.operatorId) !== operator) {
    return refused(`is of operator ${bytesToHex(response.operatorId)}, expected ${operator}`);
  }
  const digest = jobQuoteDigest(read, signing);
  const signer = await recoverQuoteSigner(response.signature, digest);
  if (signer === undefined) return refused("has a malformed signature");
  // The signer of a quote for another chain or contract comes out as a random address, which would mislead.
  if (signer !== operator) {
    return refused(
      `is not signed by ${operator} for chain_id ${signing.chainId} and verifying_contract ${signing.verifyingContract}`,
    );
  }
  if (isExpired(read, nowMs)) return { kind: "expired", reason: `expired at ${read.expiry}` };
  return { kind: "quote", quote: { ...read, digest } };
}

/** Returns true if a quote is void. @param nowMs Unix milliseconds */
export function isExpired({ expiry }: Pick<JobQuoteTerms, "expiry">, nowMs: number): boolean {
  return expiry * 1000n <= BigInt(Math.floor(nowMs));
}

/** `confidentiality` of a quote that requires a trusted execution environment. */
const CONFIDENTIALITY_REQUIRED = 1;

/** Returns the price of a quote, at which an offer ends with the quote. */
export function toPrice({ priceWei, digest, expiry, confidentiality }: JobQuote): JobPrice {
  return {
    priceWei,
    digest,
    // The signed value may be up to 2^64 - 1; the bound is 285 million years.
    endSecs: Math.min(Number(expiry), Number.MAX_SAFE_INTEGER / 1000),
    ...(confidentiality === CONFIDENTIALITY_REQUIRED && { confidentiality: "tee" }),
  };
}

/** Returns the terms of an answer without checking its signature; undefined when they are incomplete. */
export function readUncheckedTerms(response: GetJobPriceResponse): JobQuoteTerms | undefined {
  const read = readTerms(response.quoteDetails);
  return typeof read === "string" ? undefined : read;
}

/** @returns the terms, or what is wrong with them */
function readTerms(details: JobQuoteDetails | undefined): JobQuoteTerms | string {
  if (details === undefined) return "has no details";
  const { serviceId, jobIndex, price, timestamp, expiry, confidentiality, requester, inputsHash } = details;
  if (jobIndex > MAX_QUOTED_JOB_INDEX) return `is for job index ${jobIndex}, above ${MAX_QUOTED_JOB_INDEX}`;
  if (price.length !== 32) return `has a price of ${price.length} bytes, expected 32`;
  if (confidentiality > MAX_U8) return `has confidentiality ${confidentiality}, above ${MAX_U8}`;
  if (requester.length !== 20) return `has a requester of ${requester.length} bytes, expected 20`;
  if (inputsHash.length !== 32) return `has an inputs hash of ${inputsHash.length} bytes, expected 32`;
  return {
    serviceId,
    jobIndex,
    priceWei: bytesToBigInt(price),
    timestamp,
    expiry,
    confidentiality,
    requester: bytesToHex(requester),
    inputsHash: bytesToHex(inputsHash),
  };
}

/** @returns the address in lower case; undefined for a malformed signature. The contract accepts v 27 and 28 only */
async function recoverQuoteSigner(signature: Uint8Array, digest: string): Promise<string | undefined> {
  const v = signature[64];
  return v === 27 || v === 28 ? recoverSigner(`0x${digest}`, bytesToHex(signature)) : undefined;
}

function refused(reason: string): ReadQuote {
  return { kind: "refused", reason };
}
