import { Code, ConnectError } from "@connectrpc/connect";

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;

/** What a List request asks for. */
interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

interface Page<Item> {
  readonly items: readonly Item[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/**
 * One page of what is listed by falling call id. The token is the last id of the page before, so what is new
 * since then neither shifts nor repeats anything.
 * @throws ConnectError INVALID_ARGUMENT for a token that no page gave
 */
export async function readPage<Item extends { readonly callId: number }>(
  { pageSize, pageToken }: PageRequest,
  list: (range: { limit: number; before?: number }) => Promise<readonly Item[]>,
): Promise<Page<Item>> {
  const size = Math.min(pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize, MAX_PAGE_SIZE);
  if (!/^([1-9][0-9]{0,15})?$/.test(pageToken)) {
    throw new ConnectError(
      "page_token: expected the next_page_token of the page before, or none.",
      Code.InvalidArgument,
    );
  }
  const range = pageToken === "" ? {} : { before: Number(pageToken) };
  const found = await list({ limit: size + 1, ...range });
  const items = found.slice(0, size);
  const nextPageToken = found.length > size ? String(items.at(-1)?.callId) : "";
  return { items, nextPageToken };
}
