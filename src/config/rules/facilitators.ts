import type { EntryClaims } from "../entry-keys.ts";
import { type FacilitatorTable, facilitatorName } from "../facilitators.ts";
import { earlierPlace, fileKey, type Place } from "../mistakes.ts";
import { networkName } from "../token-presets.ts";
import { parseNetwork } from "../value-types.ts";
import type { X402Table } from "../x402.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

/** Checks who verifies and settles: one `facilitator_url`, or a list, in which jobgate itself may be. */
export function checkFacilitators(x402: X402Table, claims: EntryClaims, place: Place): void {
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
    if (table.local === true) checkLocal(table, at);
    else if (!at.at("local").isReported) checkRemote(table, i, claims, at);
    const name = nameOf(table);
    const first = name === undefined ? undefined : earlierPlace(seen, name, at);
    if (first !== undefined) at.report(`is the same facilitator as ${first.text}; expected each once`);
  }
  for (const [i, token] of (acceptedTokens ?? []).entries()) {
    if (token?.network === undefined || facilitators === undefined || listPlace.hasMistake) continue;
    const { network } = token;
    if (facilitators.some((table) => table === undefined || maySettle(table, network))) continue;
    place
      .at("accepted_tokens", i, "network")
      .report(
        `is ${networkName(network)}, which none of x402.facilitators settles on; expected it in the networks or rpc_urls of one`,
      );
  }
}

const LOCAL_KEYS = ["signer", "rpcUrls", "maxFeePerGasGwei", "minBalance"] as const;
const REMOTE_KEYS = ["url", "auth", "networks"] as const;

function checkLocal(table: FacilitatorTable, place: Place): void {
  refuseKeys(
    table,
    REMOTE_KEYS,
    "is for a remote facilitator; expected no such key beside local = true",
    place,
  );
  if (table.signer === undefined) {
    place.at("signer").reportMissing("is missing; expected the key that signs transactions");
  }
  const { rpcUrls } = table;
  const rpcPlace = place.at("rpc_urls");
  if (rpcUrls === undefined || Object.keys(rpcUrls).length === 0) {
    rpcPlace.reportMissing("is missing; expected the RPC of each network to settle on");
  }
  const seen = new Map<string, string>();
  for (const [name, url] of Object.entries(rpcUrls ?? {})) {
    checkCredentials(rpcPlace.at(name), url);
    const network = parseNetwork(name);
    if (network === undefined) continue;
    const first = seen.get(network);
    if (first === undefined) seen.set(network, name);
    else rpcPlace.at(name).report(`is the same network as ${first}; expected each once`);
  }
}

function checkRemote(table: FacilitatorTable, i: number, claims: EntryClaims, place: Place): void {
  refuseKeys(table, LOCAL_KEYS, "is for jobgate's own facilitator; expected local = true beside it", place);
  const { url, auth } = table;
  const urlPlace = place.at("url");
  if (url === undefined) urlPlace.reportMissing("is missing; expected it, or local = true");
  checkHttps(urlPlace, url);
  if (auth === undefined) return;
  const { headers = {} } = auth;
  const headerNames = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  for (const name of Object.keys(headers)) {
    if (!OWN_HEADERS.has(name.toLowerCase())) continue;
    place
      .at("auth", "headers", name)
      .report(`is set by jobgate; expected a header other than ${[...OWN_HEADERS].join(", ")}`);
  }
  const hasUrlCredentials = url !== undefined && new URL(url).username !== "";
  const isOfPart = claims.of("x402.facilitators.auth", i) !== undefined;
  const ways = [hasUrlCredentials, headerNames.has("authorization"), isOfPart];
  if (ways.filter(Boolean).length > 1) {
    const known = [
      "the URL's credentials",
      "headers.Authorization",
      ...claims.alternatives("x402.facilitators.auth"),
    ];
    place.at("auth").report(`sets the Authorization header twice; expected only one of ${known.join(", ")}`);
  }
}

/** Headers that make the request what it is. */
const OWN_HEADERS = new Set(["host", "connection", "content-length", "content-type", "transfer-encoding"]);

function refuseKeys(
  table: FacilitatorTable,
  keys: readonly (keyof FacilitatorTable)[],
  message: string,
  place: Place,
): void {
  for (const key of keys) if (table[key] !== undefined) place.at(fileKey(key)).report(message);
}

/** Returns the name in the journal, which tells facilitators apart. */
function nameOf({ local, url }: FacilitatorTable): string | undefined {
  if (local === true) return "local";
  return url === undefined ? undefined : facilitatorName(url);
}

function maySettle({ local, networks, rpcUrls }: FacilitatorTable, network: string): boolean {
  if (local === true) return Object.keys(rpcUrls ?? {}).some((name) => parseNetwork(name) === network);
  return networks === undefined || networks.includes(network as `eip155:${number}`);
}
