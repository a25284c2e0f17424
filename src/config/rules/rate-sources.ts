import type { Place } from "../mistakes.ts";
import type { TokenTable, X402Table } from "../x402.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

/**
 * Checks that a token has one rate, or none if it has a currency, whose prices it pays one to one. Checks that a live
 * rate is safe and stays current.
 */
export function checkRate(token: TokenTable, x402: X402Table, place: Place): void {
  const fixedPlace = place.at("rate_per_native_unit");
  const sourcePlace = place.at("rate_source");
  if (token.rateSource !== undefined) {
    if (token.ratePerNativeUnit !== undefined) {
      fixedPlace.report("is set beside rate_source; expected only one of them");
    }
    checkSource(token.rateSource, sourcePlace);
  } else if (token.currency === undefined && !mayHaveCurrency(place) && !hasRate(token, x402, place)) {
    fixedPlace.report("is missing; expected a rate here or as x402.rate_per_native_unit, or a rate_source");
  }
}

/** Returns true if a key that the currency follows from is reported as wrong. */
function mayHaveCurrency(place: Place): boolean {
  return ["token", "network", "currency"].some((key) => place.at(key).hasMistake);
}

/** Returns true if a token has a rate, its own or that of the table, or one that is reported as wrong. */
export function hasRate(token: TokenTable, x402: X402Table, place: Place): boolean {
  return (
    (token.rateSource ?? token.ratePerNativeUnit ?? x402.ratePerNativeUnit) !== undefined ||
    place.at("rate_source").isReported ||
    place.at("rate_per_native_unit").isReported ||
    place.up(2).at("rate_per_native_unit").isReported
  );
}

type SourceTable = NonNullable<TokenTable["rateSource"]>;

function checkSource({ chainlink, http }: SourceTable, place: Place): void {
  if (chainlink !== undefined && http !== undefined) {
    place.report("names both chainlink and http; expected only one of them");
  } else if (chainlink === undefined && http === undefined) {
    // A table that is there but wrong is reported already.
    const isWrong = ["chainlink", "http"].some((kind) => place.at(kind).isReported);
    if (!isWrong) place.report("names no source; expected chainlink or http");
  }
  checkCredentials(place.at("chainlink", "rpc_url"), chainlink?.rpcUrl);
  // Anyone who can change the answer on its way sets the prices.
  checkHttps(place.at("http", "url"), http?.url);
  for (const [kind, live] of Object.entries({ chainlink, http })) {
    const { maxAgeMs, refreshMs } = live ?? {};
    if (maxAgeMs === undefined || refreshMs === undefined || refreshMs < maxAgeMs) continue;
    place
      .at(kind, "refresh_secs")
      .report(
        `lets each value expire before the next request; expected less than max_age_secs, which is ${maxAgeMs / 1000}`,
      );
  }
}
