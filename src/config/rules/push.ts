import { isLoopbackHost, isPrivateHost } from "../../core/network-address.ts";
import { MIN_SHARED_KEY_BYTES, parseStandardWebhooksKey } from "../../core/standard-webhooks.ts";
import type { ConfigTables, PushTable } from "../config.ts";
import type { MistakeList, Place } from "../mistakes.ts";
import { secretList } from "../value-types.ts";
import { shownUrl } from "../web-types.ts";
import { checkCredentials } from "./urls.ts";

/** Checks that JobCalls are pushed where nobody on the way can read them, and with signatures that can be made. */
export function checkPush({ push = [] }: ConfigTables, mistakes: MistakeList): void {
  for (const [i, target] of push.entries())
    if (target !== undefined) checkTarget(target, mistakes.at("push", i));
}

function checkTarget({ url, secret }: PushTable, place: Place): void {
  const urlPlace = place.at("url");
  const secretPlace = place.at("secret");
  if (url !== undefined) {
    const { protocol, hostname } = new URL(url);
    if (protocol === "http:" && !isLoopbackHost(hostname) && !isPrivateHost(hostname)) {
      urlPlace.report(
        `is "${shownUrl(url)}", which uses http; expected https://, unless the host is loopback or private`,
      );
    } else {
      checkCredentials(urlPlace, url);
    }
    if (secret === undefined && !isLoopbackHost(hostname)) {
      secretPlace.reportMissing(
        "is missing; expected a Standard Webhooks key, by which the target recognises jobgate, since it is not on this machine",
      );
    }
  }
  for (const [i, text] of secretList(secret).entries()) {
    if (text !== undefined) checkSigningKey(text, Array.isArray(secret) ? secretPlace.at(i) : secretPlace);
  }
}

/** Checks a key that signs requests. */
export function checkSigningKey(text: string, place: Place): void {
  const key = parseStandardWebhooksKey(text);
  if (key === undefined) {
    place.report(
      "is not a Standard Webhooks key; expected whsec_ and base64, or whsk_ and the base64 of an ed25519 key",
    );
  } else if (key.kind === "public") {
    place.report("is a public key, which cannot sign; expected whsec_ or whsk_ and base64");
  } else if (key.kind === "symmetric" && key.bytes.length < MIN_SHARED_KEY_BYTES) {
    place.warn(`is ${key.bytes.length} bytes long; expected ${MIN_SHARED_KEY_BYTES} random ones or more`);
  }
}
