import * as partViews from "../../../page/part-views.ts";
import type { PartView } from "../../../page/tools/route.ts";

/** What the parts of this build show. */
export const PART_VIEWS: readonly PartView[] = Object.values(partViews);

/** Puts the titles of the parts' views between those of the page. @param titles by path, in their order */
export function withPartViews(titles: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const all = Object.entries(titles).flatMap(([path, title]) => [
    [path, title],
    ...PART_VIEWS.filter(({ after }) => after === path).map((view) => [view.path, view.title]),
  ]);
  return Object.fromEntries(all);
}
