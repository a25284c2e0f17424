import type { Page } from "../contract/operator-lists.ts";

/** Part of a page that one query found: the newest entries, below the page's start, that the query read. */
export interface PagePart<Item> {
  /** Newest first. */
  readonly items: readonly Item[];
  /**
   * ID at which the query stopped, because it found as many entries as it may or because it reads no further. Undefined if
   * no entry is left below.
   */
  readonly floor?: number | undefined;
}

/**
 * Merges the entries that several queries found into one page. If two queries found the same entry, the entry moved
 * between their tables in the meantime, and the later query is right.
 */
export function mergePage<Item extends { readonly callId: number }>(
  parts: readonly PagePart<Item>[],
  limit: number,
): Page<Item> {
  const floor = Math.max(0, ...parts.map((part) => part.floor ?? 0));
  const byId = new Map<number, Item>();
  for (const { items } of parts)
    for (const item of items) if (item.callId >= floor) byId.set(item.callId, item);
  const all = [...byId.values()].sort((left, right) => right.callId - left.callId);
  const items = all.slice(0, limit);
  const last = items.at(-1);
  if (all.length > limit && last !== undefined) return { items, next: last.callId };
  return floor === 0 ? { items } : { items, next: floor };
}
