import { InvalidArgumentError, Option } from "commander";

const MAX_LIMIT = 100_000;
/** What the API gives at once. */
const MAX_PAGE_SIZE = 500;

export const limitOption = () =>
  new Option("--limit <N>", "most entries to print, newest first")
    .default(50)
    .env("JOBGATE_LIMIT")
    .argParser(parseLimit);

function parseLimit(value: string): number {
  const limit = /^[1-9][0-9]{0,5}$/.test(value) ? Number(value) : 0;
  if (limit < 1 || limit > MAX_LIMIT) {
    throw new InvalidArgumentError(`Expected an integer from 1 to ${MAX_LIMIT}.`);
  }
  return limit;
}

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly nextPageToken: string;
}

export interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** The first `limit` entries of a paged list. */
export async function firstOf<Item>(
  limit: number,
  readPage: (page: PageRequest) => Promise<Page<Item>>,
): Promise<Item[]> {
  const found: Item[] = [];
  let pageToken = "";
  do {
    const pageSize = Math.min(limit - found.length, MAX_PAGE_SIZE);
    const page = await readPage({ pageSize, pageToken });
    found.push(...page.items);
    pageToken = page.nextPageToken;
  } while (found.length < limit && pageToken !== "");
  return found;
}
