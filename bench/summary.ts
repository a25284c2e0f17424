import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** A ratio to a baseline of the same run, which depends less on the machine than a time does. */
export interface Figure {
  readonly name: string;
  readonly ratio: number;
  readonly better: "higher" | "lower";
}

/** Figures that were measured on a quiet machine, by name. */
const COMMITTED = fileURLToPath(new URL("committed.json", import.meta.url));
const PAGE = fileURLToPath(new URL("../docs/performance.md", import.meta.url));
/** The table of the committed figures, and its head. */
const TABLE = /(\| figure of `npm run bench` \| ratio \|\n\|---\|---\|\n)(?:\|.*\n)*/;
/** Share by which the same ratio differs between two quiet runs. */
const NOISE = 0.15;

/** Prints figures beside the committed ones, and names those that are worse by more than noise. */
export function printSummary(figures: readonly Figure[]): void {
  const committed: Readonly<Record<string, number>> = existsSync(COMMITTED)
    ? JSON.parse(readFileSync(COMMITTED, "utf8"))
    : {};
  const change = ({ name, ratio, better }: Figure) => {
    const before = committed[name];
    if (before === undefined) return "new";
    const gain = better === "higher" ? ratio / before : before / ratio;
    if (gain < 1 - NOISE) return "worse";
    return gain > 1 + NOISE ? "better" : "";
  };
  console.log("\nRatios to the baselines of this run, beside the committed ones");
  console.table(
    figures.map((figure) => ({
      "": figure.name,
      better: figure.better,
      ratio: figure.ratio.toFixed(2),
      committed: committed[figure.name]?.toFixed(2) ?? "",
      change: change(figure),
    })),
  );
  const worse = figures.filter((figure) => change(figure) === "worse");
  for (const { name } of worse) console.log(`Worse than committed by more than ${NOISE * 100} %: ${name}`);
}

/** Makes these figures the committed ones, also on the page. */
export function commitFigures(figures: readonly Figure[]): void {
  const rounded = figures.map(({ name, ratio }) => [name, Number(ratio.toFixed(2))]);
  const committed = Object.fromEntries(rounded) as Readonly<Record<string, number>>;
  writeFileSync(COMMITTED, `${JSON.stringify(committed, null, 2)}\n`);
  writeFileSync(PAGE, performancePage(readFileSync(PAGE, "utf8"), committed));
}

/** Returns the page with the table of the committed figures. */
export function performancePage(page: string, committed: Readonly<Record<string, number>>): string {
  const rows = Object.entries(committed).map(([name, ratio]) => `| ${name} | ${ratio.toFixed(2)} |\n`);
  return page.replace(TABLE, (_, head: string) => head + rows.join(""));
}
