import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type JobCallOrigin, ORIGINS } from "../../core/job-call.ts";
import { oneSpelling, type PaymentClosing } from "../../core/payment.ts";
import {
  type ClosePaymentRequest,
  type GetRevenueRequest,
  type ListCallsRequest,
  type ListDeadLettersRequest,
  type ListPaymentsRequest,
  PaymentVerdict,
} from "../../gen/jobgate/v1/operator_pb.ts";
import { CALL_STATES, nameIn, PAYMENT_STATES } from "../../operator/messages.ts";
import { invalid, readSignature } from "../../operator/requests.ts";
import { groupedReason } from "../../store/contract/dead-letter-box.ts";
import type { CallFilter, PaymentFilter } from "../../store/contract/operator-lists.ts";
import type { RevenuePeriod } from "../../store/store.ts";

const DEFAULT_PERIOD_MS = 24 * 60 * 60 * 1_000;
const DEFAULT_BUCKET_MS = 60 * 60 * 1_000;
const MIN_BUCKET_MS = 1_000;
const MAX_BUCKETS = 1_000;

export const ORIGIN_NAMES = ORIGINS.map((origin) => `"${origin}"`).join(", ");

/** Reads an origin; undefined means all. @throws ConnectError INVALID_ARGUMENT */
export function readOrigin(origin: string): JobCallOrigin | undefined {
  if (origin === "") return undefined;
  const known = ORIGINS.find((one) => one === origin);
  if (known === undefined)
    throw invalid(`origin: expected one of ${ORIGIN_NAMES}, or an empty string for all.`);
  return known;
}

const MAX_TEXT_LENGTH = 200;

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export function readCallFilter(request: ListCallsRequest): Omit<CallFilter, "limit"> {
  const { origin, jobId, serviceId } = request;
  const state = nameIn(CALL_STATES, request.state);
  if (state === undefined && request.state !== 0) throw invalid("state: expected a CallState.");
  return {
    ...{ state, jobId, serviceId, ...readWho(request) },
    origin: readOrigin(origin),
    text: readText(request),
  };
}

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export function readDeadLetterFilter({ origin, jobId, serviceId, reason }: ListDeadLettersRequest) {
  return {
    ...({ state: "dead", jobId, serviceId, origin: readOrigin(origin) } as const),
    reason: reason === undefined ? undefined : groupedReason(reason),
  };
}

/** Reads a text to search for; undefined means all. @throws ConnectError INVALID_ARGUMENT for a text that is too long */
export function readText({ text }: { readonly text: string }): string | undefined {
  if (text.length > MAX_TEXT_LENGTH) throw invalid(`text: expected at most ${MAX_TEXT_LENGTH} characters.`);
  return text === "" ? undefined : text;
}

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export function readPaymentFilter(request: ListPaymentsRequest): Omit<PaymentFilter, "limit"> {
  const { jobIndex, serviceId } = request;
  const state = nameIn(PAYMENT_STATES, request.state);
  if (state === undefined && request.state !== 0) throw invalid("state: expected a PaymentState.");
  const jobId = jobIndex === undefined ? undefined : BigInt(jobIndex);
  return { state, jobId, serviceId, ...readWho(request) };
}

/** Reads the payer and the time range, which all lists have. */
function readWho({ payer, since, until }: ListCallsRequest | ListPaymentsRequest) {
  return {
    payer: readPayer({ payer }),
    since: since && timestampMs(since),
    until: until && timestampMs(until),
  };
}

/** An account of a network that is not an EVM chain, in base58. */
const OTHER_ACCOUNT = /^[1-9A-HJ-NP-Za-km-z]{32,64}$/;

/** Reads an address in one spelling; undefined means all. @throws ConnectError INVALID_ARGUMENT */
export function readPayer({ payer }: { readonly payer: string }): string | undefined {
  if (!/^(0x[0-9a-f]{40})?$/i.test(payer) && !OTHER_ACCOUNT.test(payer))
    throw invalid("payer: expected an address: 0x and 40 hex digits.");
  return payer === "" ? undefined : oneSpelling(payer);
}

/**
 * Reads the period of a revenue request: the last 24 hours by the hour unless it says otherwise.
 * @throws ConnectError INVALID_ARGUMENT for more than 1000 buckets, or for buckets shorter than a second
 */
export function readRevenuePeriod({ since, bucket }: GetRevenueRequest, now: number): RevenuePeriod {
  const from = since === undefined ? now - DEFAULT_PERIOD_MS : timestampMs(since);
  const bucketMs = bucket === undefined ? DEFAULT_BUCKET_MS : durationMs(bucket);
  if (bucketMs < MIN_BUCKET_MS) throw invalid("bucket: expected a second or more.");
  if ((now - from) / bucketMs > MAX_BUCKETS)
    throw invalid(`since: expected a time at most ${MAX_BUCKETS} buckets ago.`);
  return { since: from, bucketMs };
}

/** @throws ConnectError INVALID_ARGUMENT without a verdict, a name or a note */
export function readClosing({ verdict, ...signature }: ClosePaymentRequest): PaymentClosing {
  if (verdict !== PaymentVerdict.PAID && verdict !== PaymentVerdict.NOT_PAID)
    throw invalid("verdict: expected PAYMENT_VERDICT_PAID or PAYMENT_VERDICT_NOT_PAID.");
  return { as: verdict === PaymentVerdict.PAID ? "paid" : "not_paid", ...readSignature(signature) };
}
