import { isLoopbackHost, isPrivateHost } from "../../core/network-address.ts";
import { parseStandardWebhooksKey } from "../../core/standard-webhooks.ts";
import type { CallbackTable, ConfigTables } from "../config.ts";
import type { MistakeList, Place } from "../mistakes.ts";
import { secretList } from "../value-types.ts";
import { shownUrl } from "../web-types.ts";
import { checkSigningKey } from "./push.ts";

/** Checks that the operator's callbacks go where nobody on the way can read them, and that their signatures can be checked. */
export function checkCallbacks(tables: ConfigTables, mistakes: MistakeList): void {
  const { callbacks = [], callbackKey, x402 } = tables;
  const urls = new Set<string>();
  for (const [i, callback] of callbacks.entries()) {
    if (callback === undefined) continue;
    const place = mistakes.at("callbacks", i);
    const { url } = callback;
    if (url !== undefined && urls.has(url))
      place.at("url").report("is in another entry too; expected one entry for each URL");
    if (url !== undefined) urls.add(url);
    checkCallback(callback, place, x402 !== undefined);
  }
  for (const [i, key] of secretList(callbackKey).entries()) {
    if (key === undefined || parseStandardWebhooksKey(key)?.kind === "private") continue;
    const place = mistakes.at("callback_key");
    (Array.isArray(callbackKey) ? place.at(i) : place).report(
      "is not an ed25519 key; expected whsk_ and the base64 of its 32 bytes",
    );
  }
}

function checkCallback({ url, secret }: CallbackTable, place: Place, publishesKey: boolean): void {
  const secretPlace = place.at("secret");
  if (url !== undefined) {
    const { protocol, hostname, username, password } = new URL(url);
    if (protocol === "http:" && !isLoopbackHost(hostname) && !isPrivateHost(hostname))
      place
        .at("url")
        .report(
          `is "${shownUrl(url)}", which uses http; expected https://, unless the host is loopback or private`,
        );
    if (username !== "" || password !== "")
      place.at("url").report("has a user name or password; expected none, since each request is signed");
  }
  if (secret === undefined && !publishesKey)
    secretPlace.reportMissing(
      "is missing; expected a Standard Webhooks key, since nobody can get the public key of callback_key without [x402]",
    );
  for (const [i, text] of secretList(secret).entries())
    if (text !== undefined) checkSigningKey(text, Array.isArray(secret) ? secretPlace.at(i) : secretPlace);
}
