import * as z from "zod";
import { type Checked, required } from "../../config/check-shape.ts";
import type { EntryKeys, RequestAuth } from "../../config/entry-keys.ts";
import { text } from "../../config/value-types.ts";
import { systemClock } from "../../core/clock.ts";
import { parseCdpKey } from "./cdp-key.ts";
import { CdpTokens } from "./cdp-token.ts";

const cdp = z.object({
  keyId: text("the id of the key"),
  /** Ed25519: base64 of 32 bytes of seed and 32 of public key. ES256: PEM. */
  keySecret: text("the secret of the key"),
});

type CdpTable = Checked<z.output<typeof cdp>>;

/** Key of Coinbase's developer platform. The log masks its secret, which it finds by its name. */
interface CdpAuth extends RequestAuth {
  readonly keyId: string;
  readonly keySecret: string;
}

/** `auth.cdp` of `[[x402.facilitators]]` */
export const cdpKeys: EntryKeys<"x402.facilitators.auth"> = {
  list: "x402.facilitators.auth",
  keys: { cdp: cdp.optional() },
  alternative: "cdp",
  claim(auth: { readonly cdp?: CdpTable }, place) {
    if (auth.cdp === undefined) return undefined;
    const { keyId, keySecret } = auth.cdp;
    return {
      keys: auth,
      check() {
        if (keySecret === undefined || parseCdpKey(keySecret) !== undefined) return;
        place
          .at("cdp", "key_secret")
          .report(
            "is not a CDP key; expected the base64 of an Ed25519 key (64 bytes), or the PEM of a P-256 key",
          );
      },
      complete: () => toCdpAuth(required(keyId), required(keySecret)),
    };
  },
};

export function toCdpAuth(keyId: string, keySecret: string): CdpAuth {
  const tokens = new CdpTokens({ keyId, keySecret, clock: systemClock });
  return { keyId, keySecret, newHeaders: (method, url) => tokens.headers(method, url) };
}
