import type { Page } from "../contract/operator-lists.ts";

/** Part of a page that one query found: the newest entries below the page's start that it looked at. */
export interface PagePart<Item> {
  /** Newest first. */
  readonly items: readonly Item[];
  /** The query found as many as it may, or did not look below this ID; absent if nothing is left there. */
  readonly floor?: number | undefined;
}

/**
 * Merges what several queries found into one page. An entry that two of them found moved between their tables meanwhile:
 * the later query is right.
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
