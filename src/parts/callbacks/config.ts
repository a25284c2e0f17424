import * as z from "zod";
import type { Checked, Complete } from "../../config/check-shape.ts";
import { ConfigTable } from "../../config/config-table.ts";
import type { Place } from "../../config/mistakes.ts";
import { checkSigningKeys } from "../../config/rules/signing-keys.ts";
import {
  integer,
  oneOf,
  secretList,
  secretOrArray,
  signingKeys,
  text,
  trueOrFalse,
} from "../../config/value-types.ts";
import { httpUrl, ipRange, shownUrl } from "../../config/web-types.ts";
import { isLoopbackHost, isPrivateHost } from "../../core/network-address.ts";
import { parseStandardWebhooksKey } from "../../core/standard-webhooks.ts";
import type { CallbackRules } from "./callback-guard.ts";
import { publicCallbackKeys } from "./callback-keys.ts";
import { CALLBACK_EVENTS } from "./store/events.ts";

/** Returns the view that operators have of a key: the public key, in the form of Standard Webhooks. */
const publicKeyText = (key: string) => publicCallbackKeys([key])[0]?.whpk ?? "";

const callback = z.object({
  /** URL that gets one POST request for each event. */
  url: httpUrl(),
  events: z
    .array(oneOf(CALLBACK_EVENTS))
    .min(1)
    .describe(`an array of events: ${CALLBACK_EVENTS.map((event) => `"${event}"`).join(", ")}`),
  /** Keys that sign each request, instead of `callbackKey`. There are several during a rotation. */
  secret: signingKeys().optional(),
});

export type CallbackConfig = Complete<ReturnType<typeof toCallback>>;

/** `[[callbacks]]` and `callback_key` */
export const callbacksTable = ConfigTable.of({
  keys: {
    callbacks: z.array(callback).describe("an array of tables, one for each URL").default([]),
    /** Keys that sign callbacks to buyers, and to operators without a secret. Undefined means the key that the store keeps. */
    callbackKey: secretOrArray(
      text("an ed25519 key (whsk_ and base64), as env:NAME or file:PATH", { view: publicKeyText }),
      "keys",
    ).optional(),
  },
  check({ callbacks = [], callbackKey }, { place, tables }) {
    const urls = new Set<string>();
    for (const [i, table] of callbacks.entries()) {
      if (table === undefined) continue;
      const at = place.at("callbacks", i);
      const { url } = table;
      if (url !== undefined && urls.has(url))
        at.at("url").report("is in another entry too; expected one entry for each URL");
      if (url !== undefined) urls.add(url);
      checkCallback(table, at, tables.x402 !== undefined);
    }
    for (const [i, key] of secretList(callbackKey).entries()) {
      if (key === undefined || parseStandardWebhooksKey(key)?.kind === "private") continue;
      const at = place.at("callback_key");
      (Array.isArray(callbackKey) ? at.at(i) : at).report(
        "is not an ed25519 key; expected whsk_ and the base64 of its 32 bytes",
      );
    }
  },
  complete: ({ callbacks, callbackKey }) => ({
    endpoints: callbacks.map(toCallback),
    /** Keys that all sign; empty if the store keeps the key. */
    keys: secretList(callbackKey),
  }),
});

const buyers = z.object({
  enabled: trueOrFalse().default(true),
  ports: z.array(integer(1, 65_535)).min(1).describe("an array of ports").default([443]),
  /**
   * Hosts that are allowed for tests although they are not public. URLs with these hosts may have any port, and need no
   * TLS.
   */
  allowedAddresses: z.array(ipRange()).describe("an array of address ranges").default([]),
});

/** `[x402.callbacks]`: URLs that buyers may give in `Callback-URL`. Undefined if buyers cannot give URLs. */
export const buyersTable = ConfigTable.of({
  in: ["x402"],
  keys: { callbacks: buyers.prefault({}) },
  complete: ({ callbacks: { enabled, ...rules } }): CallbackRules | undefined =>
    enabled ? rules : undefined,
});

function toCallback({ secret, ...table }: Complete<z.output<typeof callback>>) {
  /** Signing keys; empty to sign with the keys of `callback_key`. */
  return { ...table, secrets: secretList(secret) };
}

/** Checks that callbacks go where only the receiver can read them, and that the receiver can check their signatures. */
function checkCallback(
  { url, secret }: Checked<z.output<typeof callback>>,
  place: Place,
  publishesKey: boolean,
): void {
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
      "is missing; expected a Standard Webhooks key, because receivers cannot get the public key of callback_key without [x402]",
    );
  checkSigningKeys(secret, secretPlace);
}
