import * as partViews from "../../../page/part-views.ts";
import type { PartView } from "../../../page/tools/route.ts";

/** Views that the parts of this build add. */
export const PART_VIEWS: readonly PartView[] = Object.values(partViews);

/**
 * Inserts the titles of the parts' views into the page's titles. @param titles the page's own, by path, in the order of its
 * menu
 */
export function withPartViews(titles: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const all = Object.entries(titles).flatMap(([path, title]) => [
    [path, title],
    ...PART_VIEWS.filter(({ after }) => after === path).map((view) => [view.path, view.title ?? view.path]),
  ]);
  return Object.fromEntries(all);
}
