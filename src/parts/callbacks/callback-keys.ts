import { createPublicKey, type KeyObject, randomBytes } from "node:crypto";
import { type SigningKey, toSigningKey } from "../../core/standard-webhooks.ts";
import type { MethodHandlers } from "../../http/routes.ts";

/** Keys that sign callbacks for receivers without a shared secret. */
export class CallbackKeys {
  readonly #keep: (candidate: string) => Promise<string>;
  #kept = "";
  #keys: readonly SigningKey[] = [];
  #published = "";

  /** @param keep saves a new key unless the store has a key, and returns the kept key */
  constructor(keep: (candidate: string) => Promise<string>) {
    this.#keep = keep;
  }

  /** Loads the key that the store keeps, if {@link use} needs it. */
  async load(configured: readonly string[]): Promise<void> {
    if (configured.length === 0 && this.#kept === "")
      this.#kept = await this.#keep(`whsk_${randomBytes(32).toString("base64")}`);
  }

  /** Signs with these keys (`whsk_…`) from now on. If there are none, signs with the key that the store keeps for all replicas. */
  async use(configured: readonly string[]): Promise<void> {
    await this.load(configured);
    const keys = configured.length === 0 ? [this.#kept] : configured;
    this.#keys = keys.flatMap((key) => toSigningKey(key) ?? []);
    this.#published = JSON.stringify({ keys: publicCallbackKeys(keys) });
  }

  get keys(): readonly SigningKey[] {
    return this.#keys;
  }

  /** JSON Web Key Set of the public keys. */
  get published(): string {
    return this.#published;
  }

  /** Route of the public keys, which may be kept for a few minutes. */
  get route(): readonly [path: string, handlers: MethodHandlers] {
    const headers = { "content-type": "application/json", "cache-control": "public, max-age=300" };
    const answer = () => ({ status: 200, headers, body: this.#published });
    return ["/.well-known/jobgate-keys.json", { GET: answer, HEAD: answer }];
  }
}

/** Describes the public keys of private keys (`whsk_`), each as a JWK and in the form of Standard Webhooks. */
export function publicCallbackKeys(keys: readonly string[]) {
  return keys.flatMap((key) => toSigningKey(key) ?? []).map((key) => publicKey(key as KeyObject));
}

function publicKey(key: KeyObject) {
  const { kty, crv, x = "" } = createPublicKey(key).export({ format: "jwk" });
  return {
    kty,
    crv,
    x,
    use: "sig",
    alg: "EdDSA",
    whpk: `whpk_${Buffer.from(x, "base64url").toString("base64")}`,
  };
}
