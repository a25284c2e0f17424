import type { ConfigTables } from "../config.ts";
import { fileKey } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import { checkCredentials } from "./urls.ts";

const SIGNING_KEYS = ["chainId", "verifyingContract", "operatorAddress"] as const;

/** Checks that quotes of `[pricing_engine]` can be checked, where jobgate relies on them. */
export function checkPricingEngine(tables: ConfigTables, mistakes: MistakeList): void {
  const { pricingEngine: engine, x402 } = tables;
  if (engine === undefined) return;
  checkCredentials(["pricing_engine", "url"], engine.url, mistakes);
  const isGiven = (key: (typeof SIGNING_KEYS)[number]) =>
    engine[key] !== undefined || mistakes.isReported(["pricing_engine", fileKey(key)]);
  const given = SIGNING_KEYS.find(isGiven);
  if (x402?.priceSource !== "engine" && given === undefined) {
    mistakes.warn(
      ["pricing_engine"],
      `has no ${SIGNING_KEYS.map(fileKey).join(", ")}, so quotes cannot be checked, and so cannot be paid`,
    );
    return;
  }
  const reason =
    x402?.priceSource === "engine"
      ? 'x402.price_source is "engine"'
      : `pricing_engine.${fileKey(given ?? "")} is set`;
  for (const key of SIGNING_KEYS) {
    if (isGiven(key)) continue;
    mistakes.report(["pricing_engine", fileKey(key)], `is missing; expected it, since ${reason}`);
  }
}
