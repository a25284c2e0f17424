import { parseCdpKey } from "../../core/cdp-key.ts";
import { type FacilitatorTable, facilitatorName } from "../facilitators.ts";
import { earlierPlace, fileKey, type Place } from "../mistakes.ts";
import { networkName } from "../token-presets.ts";
import { parseNetwork } from "../value-types.ts";
import type { X402Table } from "../x402.ts";
import { checkCredentials, checkHttps } from "./urls.ts";

/** Checks who verifies and settles: one `facilitator_url`, or a list, in which jobgate itself may be. */
export function checkFacilitators(x402: X402Table, place: Place): void {
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
    else if (!at.at("local").isReported) checkRemote(table, at);
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

function checkRemote(table: FacilitatorTable, place: Place): void {
  refuseKeys(table, LOCAL_KEYS, "is for jobgate's own facilitator; expected local = true beside it", place);
  const { url, auth } = table;
  const urlPlace = place.at("url");
  if (url === undefined) urlPlace.reportMissing("is missing; expected it, or local = true");
  checkHttps(urlPlace, url);
  if (auth === undefined) return;
  const { headers = {}, cdp } = auth;
  const headerNames = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  for (const name of Object.keys(headers)) {
    if (!OWN_HEADERS.has(name.toLowerCase())) continue;
    place
      .at("auth", "headers", name)
      .report(`is set by jobgate; expected a header other than ${[...OWN_HEADERS].join(", ")}`);
  }
  const hasUrlCredentials = url !== undefined && new URL(url).username !== "";
  const ways = [hasUrlCredentials, headerNames.has("authorization"), cdp !== undefined];
  if (ways.filter(Boolean).length > 1) {
    place
      .at("auth")
      .report(
        "sets the Authorization header twice; expected one of the URL's credentials, headers.Authorization and cdp",
      );
  }
  if (cdp?.keySecret !== undefined && parseCdpKey(cdp.keySecret) === undefined) {
    place
      .at("auth", "cdp", "key_secret")
      .report(
        "is not a CDP key; expected the base64 of an Ed25519 key (64 bytes), or the PEM of a P-256 key",
      );
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
