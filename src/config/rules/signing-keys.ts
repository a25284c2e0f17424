import { MIN_SHARED_KEY_BYTES, parseStandardWebhooksKey } from "../../core/standard-webhooks.ts";
import type { Place } from "../mistakes.ts";
import { secretList } from "../value-types.ts";

/** Checks the keys that sign requests: one, or several in an array. */
export function checkSigningKeys(
  secret: string | readonly (string | undefined)[] | undefined,
  place: Place,
): void {
  for (const [i, text] of secretList(secret).entries())
    if (text !== undefined) checkSigningKey(text, Array.isArray(secret) ? place.at(i) : place);
}

function checkSigningKey(text: string, place: Place): void {
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
