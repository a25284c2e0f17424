import { Code, ConnectError } from "@connectrpc/connect";
import type { Page } from "../store/contract/operator-lists.ts";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;

/**
 * Reads one page of a list in descending order of IDs. The token is the last ID that the previous page has read, so new
 * entries neither shift nor repeat entries.
 * @returns the page, with an empty `nextPageToken` if it is the last page
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

/** ID of an entry. An entry without an ID of its own has the ID of its call. */
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

const MAX_BY_LENGTH = 200;
const MAX_NOTE_LENGTH = 2_000;

interface Signed {
  readonly by: string;
  readonly note: string;
}

/** Reads who decides something, and why. @throws ConnectError INVALID_ARGUMENT without a name or a note */
export function readSignature(signed: Signed): Signed {
  const signature = readSigner(signed);
  if (signature.note.trim() === "")
    throw invalid(`note: expected a reason, at most ${MAX_NOTE_LENGTH} characters.`);
  return signature;
}

/** Reads who decides something, and why if the operator says so. @throws ConnectError INVALID_ARGUMENT without a name */
export function readSigner({ by, note }: Signed): Signed {
  if (by.trim() === "" || by.length > MAX_BY_LENGTH)
    throw invalid(`by: expected the operator's name, at most ${MAX_BY_LENGTH} characters.`);
  if (note.length > MAX_NOTE_LENGTH) throw invalid(`note: expected at most ${MAX_NOTE_LENGTH} characters.`);
  return { by, note };
}

/** Returns true for a possible call ID: positive and below 2^53 - 1, so that the next ID is still exact. */
export function isCallId(callId: bigint): boolean {
  return callId > 0n && callId < BigInt(Number.MAX_SAFE_INTEGER);
}

export function invalid(message: string): ConnectError {
  return new ConnectError(message, Code.InvalidArgument);
}

export function notFound(what: string, callId: bigint): ConnectError {
  return new ConnectError(`There is no ${what} with call id ${callId}.`, Code.NotFound);
}
