import type { Checked } from "../check-shape.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";
import { checkCredentials } from "./urls.ts";

const SIGNING_KEYS = ["chain_id", "verifying_contract", "operator_address"] as const;

/** That quotes of `[pricing_engine]` can be checked, where they are relied on. */
export function checkPricingEngine(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const { pricing_engine: engine, x402 } = file;
  if (engine === undefined) return;
  checkCredentials(["pricing_engine", "url"], engine.url, mistakes);
  const isGiven = (key: (typeof SIGNING_KEYS)[number]) =>
    engine[key] !== undefined || mistakes.isReported(["pricing_engine", key]);
  const given = SIGNING_KEYS.filter(isGiven);
  const reason =
    x402?.price_source === "engine"
      ? 'x402.price_source is "engine"'
      : given[0] && `pricing_engine.${given[0]} is set`;
  if (reason === undefined) {
    mistakes.warn(
      ["pricing_engine"],
      `has no ${SIGNING_KEYS.join(", ")}, so quotes cannot be checked, and so cannot be paid`,
    );
    return;
  }
  for (const key of SIGNING_KEYS) {
    if (isGiven(key)) continue;
    mistakes.report(["pricing_engine", key], `is missing; expected it, since ${reason}`);
  }
}
