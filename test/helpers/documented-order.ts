import { readFileSync } from "node:fs";

/** Returns the rows of the order of a purchase in docs/errors.md: each step with its refusals. */
export function documentedOrder(): { readonly name: string; readonly refusals: readonly string[] }[] {
  const text = readFileSync(new URL("../../docs/errors.md", import.meta.url), "utf8");
  const [, order = ""] = text.split("## The order of a purchase");
  return [...order.matchAll(/^\| (\w+) \| (`.*`) \|$/gm)].map(([, name = "", refusals = ""]) => ({
    name,
    refusals: [...refusals.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code),
  }));
}

/** Returns the row of a check, and the name of the first step of the core after it. */
export function documentedCheck(check: string, steps: readonly string[]) {
  const order = documentedOrder();
  const at = order.findIndex(({ name }) => name === check);
  return { ...order[at], before: order.slice(at).find(({ name }) => steps.includes(name))?.name };
}
