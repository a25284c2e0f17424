import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { purchaseSteps } from "../../src/x402/purchase/steps.ts";
import type { TermsCheck } from "../../src/x402/purchase/terms.ts";

/** Returns the rows of the order of a purchase in docs/errors.md: each step with its refusals. */
export function documentedOrder(): { readonly name: string; readonly refusals: readonly string[] }[] {
  const text = readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8");
  const [, order = ""] = text.split("## The order of a purchase");
  return [...order.matchAll(/^\| (\w+) \| (`.*`) \|$/gm)].map(([, name = "", refusals = ""]) => ({
    name,
    refusals: [...refusals.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code),
  }));
}

/** Expects docs/errors.md to print a check at its place, with its refusals. */
export function expectDocumented({ name, before, refusals }: TermsCheck): void {
  const steps = new Set(purchaseSteps([]).map((step) => step.name));
  const order = documentedOrder();
  const at = order.findIndex((row) => row.name === name);
  const next = order.slice(at).find((row) => steps.has(row.name))?.name;
  expect({ ...order[at], before: next }).toEqual({ name, before, refusals });
}
