import type { EntryClaims } from "../entry-keys.ts";
import { type FacilitatorTable, facilitatorName } from "../facilitators.ts";
import { earlierPlace, type Place } from "../mistakes.ts";
import type { ConfigTables } from "../schema.ts";
import { networkName } from "../token-presets.ts";
import type { X402Table } from "../x402.ts";
import { checkHttps } from "./urls.ts";

/**
 * Checks the facilitators that verify and settle: one `facilitator_url`, or a list. Parts check the entries that they claim.
 */
export function checkFacilitators(
  { claims, methods }: Pick<ConfigTables, "claims" | "methods">,
  x402: X402Table,
  place: Place,
): void {
  const kinds = methods.flatMap(({ networks }) => networks ?? []);
  const { facilitatorUrl, facilitators, acceptedTokens } = x402;
  const urlPlace = place.at("facilitator_url");
  const listPlace = place.at("facilitators");
  checkHttps(urlPlace, facilitatorUrl);
  const isGiven = (value: unknown, at: Place) => value !== undefined || at.isReported;
  if (!isGiven(facilitatorUrl, urlPlace) && !isGiven(facilitators, listPlace)) {
    urlPlace.report(
      "is missing; expected an absolute http:// or https:// URL without query and fragment, or [[x402.facilitators]]",
    );
  } else if (facilitatorUrl !== undefined && facilitators !== undefined) {
    listPlace.report("is set beside facilitator_url; expected only one of them");
  }
  const seen = new Map<string, Place>();
  for (const [i, table] of (facilitators ?? []).entries()) {
    if (table === undefined) continue;
    const at = listPlace.at(i);
    const claim = claims.of("x402.facilitators", i);
    if (claim === undefined) checkRemote(table, i, claims, at);
    const name = claim?.name ?? (table.url && facilitatorName(table.url));
    const first = name === undefined ? undefined : earlierPlace(seen, name, at);
    if (first !== undefined) at.report(`is the same facilitator as ${first.text}; expected each once`);
  }
  for (const [i, token] of (acceptedTokens ?? []).entries()) {
    if (token?.network === undefined || facilitators === undefined || listPlace.hasMistake) continue;
    const { network } = token;
    const maySettle = (table: FacilitatorTable | undefined, j: number) =>
      (claims.of("x402.facilitators", j) ?? table)?.networks?.some((one) => one === network) ?? true;
    if (facilitators.some(maySettle)) continue;
    place
      .at("accepted_tokens", i, "network")
      .report(
        `is ${networkName(network, kinds)}, which none of x402.facilitators settles on; expected it in the networks of one of them`,
      );
  }
}

function checkRemote(table: FacilitatorTable, i: number, claims: EntryClaims, place: Place): void {
  const { url, auth } = table;
  const urlPlace = place.at("url");
  if (url === undefined) {
    const ways = ["it", ...claims.alternatives("x402.facilitators")];
    urlPlace.reportMissing(`is missing; expected ${ways.join(", or ")}`);
  }
  checkHttps(urlPlace, url);
  if (auth === undefined) return;
  const { headers = {} } = auth;
  const isOfPart = claims.of("x402.facilitators.auth", i) !== undefined;
  const partKeys = claims.alternatives("x402.facilitators.auth");
  if (Object.keys(headers).length === 0 && !isOfPart && !place.at("auth").hasMistake)
    place.at("auth").report(`is empty; expected ${["headers", ...partKeys].join(" or ")}`);
  const headerNames = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  for (const name of Object.keys(headers)) {
    if (!OWN_HEADERS.has(name.toLowerCase())) continue;
    place
      .at("auth", "headers", name)
      .report(`is set by jobgate; expected a header other than ${[...OWN_HEADERS].join(", ")}`);
  }
  const hasUrlCredentials = url !== undefined && new URL(url).username !== "";
  const ways = [hasUrlCredentials, headerNames.has("authorization"), isOfPart];
  if (ways.filter(Boolean).length > 1) {
    const known = ["the URL's credentials", "headers.Authorization", ...partKeys];
    place.at("auth").report(`sets the Authorization header twice; expected only one of ${known.join(", ")}`);
  }
}

/** Headers that are part of the request itself, so only jobgate sets them. */
const OWN_HEADERS = new Set(["host", "connection", "content-length", "content-type", "transfer-encoding"]);
