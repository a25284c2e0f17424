import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { PaymentClosing } from "../core/payment.ts";
import {
  type ClosePaymentRequest,
  type GetRevenueRequest,
  PaymentVerdict,
} from "../gen/jobgate/v1/operator_pb.ts";
import type { RevenuePeriod } from "../store/store.ts";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;

const DEFAULT_PERIOD_MS = 24 * 60 * 60 * 1_000;
const DEFAULT_BUCKET_MS = 60 * 60 * 1_000;
const MIN_BUCKET_MS = 1_000;
const MAX_BUCKETS = 1_000;

/** Most call IDs in one request. */
const MAX_IDS = 1_000;

/**
 * Reads one page of a list in descending order of call IDs. The token is the last ID of the page before, so new entries
 * neither shift nor repeat anything.
 * @returns the page, with an empty `nextPageToken` if it is the last
 * @throws ConnectError INVALID_ARGUMENT for a malformed token
 */
export async function readPage<Item extends { readonly callId: number }>(
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
  list: (range: { limit: number; before?: number }) => Promise<readonly Item[]>,
): Promise<{ readonly items: readonly Item[]; readonly nextPageToken: string }> {
  const size = Math.min(pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize, MAX_PAGE_SIZE);
  if (!/^([1-9][0-9]{0,15})?$/.test(pageToken))
    throw invalid("page_token: expected the next_page_token of the previous page, or an empty string.");
  const range = pageToken === "" ? {} : { before: Number(pageToken) };
  const found = await list({ limit: size + 1, ...range });
  const items = found.slice(0, size);
  const nextPageToken = found.length > size ? String(items.at(-1)?.callId) : "";
  return { items, nextPageToken };
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
export function readClosing({ verdict, by, note }: ClosePaymentRequest): PaymentClosing {
  if (verdict !== PaymentVerdict.PAID && verdict !== PaymentVerdict.NOT_PAID)
    throw invalid("verdict: expected PAYMENT_VERDICT_PAID or PAYMENT_VERDICT_NOT_PAID.");
  if (by.trim() === "" || by.length > MAX_BY_LENGTH)
    throw invalid(`by: expected the operator's name, at most ${MAX_BY_LENGTH} characters.`);
  if (note.trim() === "" || note.length > MAX_NOTE_LENGTH)
    throw invalid(`note: expected a reason, at most ${MAX_NOTE_LENGTH} characters.`);
  return { as: verdict === PaymentVerdict.PAID ? "paid" : "not_paid", by, note };
}

/** @throws ConnectError INVALID_ARGUMENT for more than 1000 call IDs */
export function checkIdCount(callIds: readonly bigint[]): void {
  if (callIds.length > MAX_IDS) throw invalid(`call_ids: expected at most ${MAX_IDS}.`);
}

/** Returns true for a possible call ID: positive and below 2^53 - 1, so that the ID after it is still exact. */
export function isCallId(callId: bigint): boolean {
  return callId > 0n && callId < BigInt(Number.MAX_SAFE_INTEGER);
}

export function invalid(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}
