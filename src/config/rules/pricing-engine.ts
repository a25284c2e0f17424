import { fileKey, type MistakeList } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";
import { checkCredentials } from "./urls.ts";

const SIGNING_KEYS = ["chainId", "verifyingContract", "operatorAddress"] as const;

/** Checks that quotes of `[pricing_engine]` can be checked, where jobgate relies on them. */
export function checkPricingEngine(tables: ConfigTables, mistakes: MistakeList): void {
  const { pricingEngine: engine, x402, jobs = [] } = tables;
  if (engine === undefined) return;
  const place = mistakes.at("pricing_engine");
  checkCredentials(place.at("url"), engine.url);
  const isGiven = (key: (typeof SIGNING_KEYS)[number]) =>
    engine[key] !== undefined || place.at(fileKey(key)).isReported;
  const given = SIGNING_KEYS.find(isGiven);
  const byEngine = jobs.findIndex((job) => job?.price === "engine");
  if (x402?.priceSource !== "engine" && byEngine === -1 && given === undefined) {
    place.warn(
      `has no ${SIGNING_KEYS.map(fileKey).join(", ")}, so quotes cannot be checked, and so cannot be paid`,
    );
    return;
  }
  const reason =
    x402?.priceSource === "engine"
      ? 'x402.price_source is "engine"'
      : byEngine !== -1
        ? `jobs[${byEngine}].price is "engine"`
        : `pricing_engine.${fileKey(given ?? "")} is set`;
  for (const key of SIGNING_KEYS) {
    if (isGiven(key)) continue;
    place.at(fileKey(key)).report(`is missing; expected it, since ${reason}`);
  }
}
