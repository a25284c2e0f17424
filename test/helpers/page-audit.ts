import { readFileSync } from "node:fs";
import type { CDPSession, Page } from "playwright-core";

/** Installed by the full tests' setup. */
const AXE = new URL("../accessibility/node_modules/axe-core/axe.min.js", import.meta.url);
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Result of axe-core for a page. */
export interface Audit {
  /** Rules that hold, by name. */
  readonly kept: readonly string[];
  /** Rules that are broken, with where. */
  readonly broken: readonly string[];
}

/** Checks the current page against WCAG 2.2 up to level AA and axe-core's best practices. */
export async function auditAccessibility(page: Page): Promise<Audit> {
  // Past the page's own policy, which lets no script in.
  const session = await page.context().newCDPSession(page);
  await evaluate(session, readFileSync(AXE, "utf8"));
  const run = `axe.run(document, { runOnly: ${JSON.stringify(RULES)} }).then(({ passes, violations }) => ({
    kept: passes.map(({ id }) => id),
    broken: violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => [id, html, failureSummary].join(": "))),
  }))`;
  const audit = (await evaluate(session, run)) as Audit;
  await session.detach();
  return audit;
}

async function evaluate(session: CDPSession, expression: string): Promise<unknown> {
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    expression,
    awaitPromise: true,
    returnByValue: true,
  });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

/** The browser types that this function uses: it runs in the browser. */
declare const document: {
  readonly documentElement: { readonly scrollWidth: number; readonly clientWidth: number };
};

/** Returns how many pixels the page is wider than its window. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
