import type { EntryClaims } from "../entry-keys.ts";
import type { Place } from "../mistakes.ts";
import type { TokenTable, X402Table } from "../x402.ts";

/** Checks that a token has a rate, or a currency. A token pays prices in its currency one to one. */
export function checkRate(token: TokenTable, i: number, tables: RateTables, place: Place): void {
  if (token.currency !== undefined || mayHaveCurrency(place) || hasRate(token, i, tables, place)) return;
  const ways = [
    "a rate here or as x402.rate_per_native_unit",
    ...tables.claims.alternatives("x402.acceptedTokens"),
  ];
  place.at("rate_per_native_unit").report(`is missing; expected ${ways.join(", or ")}`);
}

/** Tables and claims that give a rate to a token whose entry has none. */
interface RateTables {
  readonly x402: X402Table;
  readonly claims: EntryClaims;
}

/** Returns true if a key that determines the currency is reported as wrong. */
function mayHaveCurrency(place: Place): boolean {
  return ["token", "network", "currency"].some((key) => place.at(key).hasMistake);
}

/**
 * Returns true if a token has a rate: in its entry, in the table, or from a part. A token whose rate is reported as wrong is
 * taken to have a rate.
 */
export function hasRate(token: TokenTable, i: number, { x402, claims }: RateTables, place: Place): boolean {
  return (
    claims.of("x402.acceptedTokens", i) !== undefined ||
    (token.ratePerNativeUnit ?? x402.ratePerNativeUnit) !== undefined ||
    place.at("rate_per_native_unit").isReported ||
    place.up(2).at("rate_per_native_unit").isReported
  );
}
