import { createPublicKey, randomBytes, verify } from "node:crypto";
import { expect, test } from "vitest";
import { parseStandardWebhooksKey, signStandardWebhook } from "../../../src/core/standard-webhooks.ts";
import { CallbackKeys } from "../../../src/parts/callbacks/callback-keys.ts";

const privateKey = () => `whsk_${randomBytes(32).toString("base64")}`;

interface KeySet {
  readonly keys: readonly {
    readonly kty: string;
    readonly crv: string;
    readonly x: string;
    readonly whpk: string;
  }[];
}
const published = (keys: CallbackKeys) => (JSON.parse(keys.published) as KeySet).keys;

test("Without a key of its own jobgate makes one, which replicas share", async () => {
  let kept: string | undefined;
  const keep = async (candidate: string) => (kept ??= candidate);
  const [one, other] = [new CallbackKeys(keep), new CallbackKeys(keep)];
  await Promise.all([one.use([]), other.use([])]);
  expect(published(one)).toHaveLength(1);
  expect(published(one)).toEqual(published(other));
  expect(one.published).not.toContain(kept?.slice(5, 30));
});

test("Each configured key signs and is published, as a JWK and as Standard Webhooks writes it", async () => {
  const keys = new CallbackKeys(() => Promise.reject(new Error("not asked")));
  await keys.use([privateKey(), privateKey()]);
  const body = Buffer.from("{}");
  for (const [i, { kty, crv, x, whpk }] of published(keys).entries()) {
    const [version, signature = ""] = signStandardWebhook(keys.keys[i] as never, "id.1.", body).split(",");
    expect(version).toBe("v1a");
    const jwk = createPublicKey({ key: { kty, crv, x }, format: "jwk" });
    expect(verify(null, Buffer.from("id.1.{}"), jwk, Buffer.from(signature, "base64"))).toBe(true);
    expect(parseStandardWebhooksKey(whpk)).toEqual({ kind: "public", bytes: Buffer.from(x, "base64url") });
  }
  await keys.use([privateKey()]);
  expect(published(keys)).toHaveLength(1);
});
