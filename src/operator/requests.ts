import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { JobCallOrigin } from "../core/job-call.ts";
import type { PaymentClosing } from "../core/payment.ts";
import {
  type ClosePaymentRequest,
  type GetRevenueRequest,
  type ListCallsRequest,
  type ListDeadLettersRequest,
  type ListPaymentsRequest,
  PaymentVerdict,
} from "../gen/jobgate/v1/operator_pb.ts";
import { GROUPED_CHARACTERS } from "../store/contract/dead-letter-box.ts";
import type { CallFilter, Page, PaymentFilter } from "../store/contract/operator-lists.ts";
import type { RevenuePeriod } from "../store/store.ts";
import { fromCallState, fromPaymentState } from "./messages.ts";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;

const DEFAULT_PERIOD_MS = 24 * 60 * 60 * 1_000;
const DEFAULT_BUCKET_MS = 60 * 60 * 1_000;
const MIN_BUCKET_MS = 1_000;
const MAX_BUCKETS = 1_000;

/**
 * Reads one page of a list in descending order of IDs. The token is the last ID that the page before looked at,
 * so new entries neither shift nor repeat anything.
 * @returns the page, with an empty `nextPageToken` if it is the last
 * @throws ConnectError INVALID_ARGUMENT for a malformed token
 */
export async function readPage<Item extends { readonly id: number } | { readonly callId: number }>(
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
  list: (range: { limit: number; before?: number }) => Promise<Page<Item>>,
): Promise<{ readonly items: readonly Item[]; readonly nextPageToken: string }> {
  const size = pageSizeOf({ pageSize });
  const range = pageToken === "" ? {} : { before: readPageToken(pageToken) };
  const found = await list({ limit: size + 1, ...range });
  const items = found.items.slice(0, size);
  const last = items.at(-1);
  const next = last !== undefined && found.items.length > size ? idOf(last) : found.next;
  return { items, nextPageToken: next === undefined ? "" : String(next) };
}

/** ID of an entry: of a callback its own, and not that of its call. */
function idOf(item: { readonly id: number } | { readonly callId: number }): number {
  return "id" in item ? item.id : item.callId;
}

/** Number of entries on a page. */
export function pageSizeOf({ pageSize }: { readonly pageSize: number }): number {
  return Math.min(pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize, MAX_PAGE_SIZE);
}

/** @throws ConnectError INVALID_ARGUMENT */
export function readPageToken(token: string): number {
  if (/^[1-9][0-9]{0,15}$/.test(token)) return Number(token);
  throw invalid("page_token: expected the next_page_token of the previous page, or an empty string.");
}

/** Reads an origin; undefined means both. @throws ConnectError INVALID_ARGUMENT */
export function readOrigin(origin: string): JobCallOrigin | undefined {
  if (origin === "") return undefined;
  if (origin === "x402" || origin === "webhook") return origin;
  throw invalid('origin: expected "x402" or "webhook", or an empty string for both.');
}

const MAX_TEXT_LENGTH = 200;

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export function readCallFilter(request: ListCallsRequest): Omit<CallFilter, "limit"> {
  const { origin, text, jobId, serviceId } = request;
  const state = fromCallState(request.state);
  if (state === undefined && request.state !== 0) throw invalid("state: expected a CallState.");
  if (text.length > MAX_TEXT_LENGTH) throw invalid(`text: expected at most ${MAX_TEXT_LENGTH} characters.`);
  return {
    ...{ state, jobId, serviceId, ...readWho(request) },
    origin: readOrigin(origin),
    text: text === "" ? undefined : text,
  };
}

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export function readDeadLetterFilter({ origin, jobId, serviceId, reason }: ListDeadLettersRequest) {
  return {
    ...({ state: "dead", jobId, serviceId, origin: readOrigin(origin) } as const),
    reason: reason === undefined ? undefined : [...reason].slice(0, GROUPED_CHARACTERS).join(""),
  };
}

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export function readPaymentFilter(request: ListPaymentsRequest): Omit<PaymentFilter, "limit"> {
  const { jobIndex, serviceId } = request;
  const state = fromPaymentState(request.state);
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

/** Reads an address in lower case; undefined means all. @throws ConnectError INVALID_ARGUMENT */
export function readPayer({ payer }: { readonly payer: string }): string | undefined {
  if (!/^(0x[0-9a-f]{40})?$/i.test(payer)) throw invalid("payer: expected an address: 0x and 40 hex digits.");
  return payer === "" ? undefined : payer.toLowerCase();
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

const MAX_BY_LENGTH = 200;
const MAX_NOTE_LENGTH = 2_000;

/** @throws ConnectError INVALID_ARGUMENT without a verdict, a name or a note */
export function readClosing({ verdict, ...signature }: ClosePaymentRequest): PaymentClosing {
  if (verdict !== PaymentVerdict.PAID && verdict !== PaymentVerdict.NOT_PAID)
    throw invalid("verdict: expected PAYMENT_VERDICT_PAID or PAYMENT_VERDICT_NOT_PAID.");
  return { as: verdict === PaymentVerdict.PAID ? "paid" : "not_paid", ...readSignature(signature) };
}

/** Reads who decides something, and why. @throws ConnectError INVALID_ARGUMENT without a name or a note */
export function readSignature({ by, note }: { readonly by: string; readonly note: string }) {
  if (by.trim() === "" || by.length > MAX_BY_LENGTH)
    throw invalid(`by: expected the operator's name, at most ${MAX_BY_LENGTH} characters.`);
  if (note.trim() === "" || note.length > MAX_NOTE_LENGTH)
    throw invalid(`note: expected a reason, at most ${MAX_NOTE_LENGTH} characters.`);
  return { by, note };
}

/** Returns true for a possible call ID: positive and below 2^53 - 1, so that the ID after it is still exact. */
export function isCallId(callId: bigint): boolean {
  return callId > 0n && callId < BigInt(Number.MAX_SAFE_INTEGER);
}

export function invalid(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}

export function notFound(what: string, callId: bigint): ConnectError {
  return new ConnectError(`There is no ${what} with call id ${callId}.`, Code.NotFound);
}
