import {
  createDecipheriv,
  createECDH,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  pbkdf2,
  scrypt,
} from "node:crypto";
import { promisify } from "node:util";
import { fromPublicKey } from "ox/Address";
import { keccak256 } from "ox/Hash";
import { fromHex } from "ox/PublicKey";
import * as z from "zod";

/** 32 bytes as hex with `0x`. */
export type PrivateKey = `0x${string}`;

/** Order of secp256k1. */
const GROUP_ORDER = 0xffff_ffff_ffff_ffff_ffff_ffff_ffff_fffe_baae_dce6_af48_a03b_bfd2_5e8c_d036_4141n;

/** Parses the private key of an EVM account. */
export function parsePrivateKey(text: string): PrivateKey | undefined {
  if (!/^0x[0-9a-fA-F]{64}$/.test(text)) return undefined;
  const scalar = BigInt(text);
  return scalar > 0n && scalar < GROUP_ORDER ? (text.toLowerCase() as PrivateKey) : undefined;
}

/** Returns the address of a key's account, with a checksum. */
export function accountOf(key: PrivateKey): `0x${string}` {
  const curve = createECDH("secp256k1");
  curve.setPrivateKey(key.slice(2), "hex");
  return fromPublicKey(fromHex(`0x${curve.getPublicKey("hex")}`), { checksum: true });
}

/**
 * Parses an Ed25519 key of 64 bytes: the seed, and its public key.
 * @returns undefined if the public key is not the seed's, because signatures would be another account's
 */
export function parseEd25519Key(bytes: Uint8Array): KeyObject | undefined {
  const [d = "", x = ""] = [bytes.subarray(0, 32), bytes.subarray(32)].map((half) =>
    Buffer.from(half).toString("base64url"),
  );
  try {
    const key = createPrivateKey({ key: { kty: "OKP", crv: "Ed25519", d, x }, format: "jwk" });
    // Node itself compares the public key with the seed only from version 26 on.
    return createPublicKey(key).export({ format: "jwk" }).x === x ? key : undefined;
  } catch {
    return undefined;
  }
}

/** A keystore without a usable key. The message completes "the keystore …" and quotes nothing from it. */
export class KeystoreProblem extends Error {
  override readonly name = "KeystoreProblem";
}

/** Memory that the derivation of a key from a password may take. Usual keystores take 4 to 256 MiB. */
const MAX_SCRYPT_BYTES = 1024 ** 3;
/** Usual keystores have 262,144. */
const MAX_PBKDF2_ROUNDS = 100_000_000;

const hex = z
  .string()
  .regex(/^([0-9a-fA-F]{2})+$/)
  .transform((digits) => Buffer.from(digits, "hex"));
const DERIVED_BYTES = 32;
const scryptParameters = z
  .object({ dklen: z.literal(DERIVED_BYTES), salt: hex, n: z.int(), r: z.int(), p: z.int() })
  .refine(({ n, r, p }) => 128 * r * (n + p) <= MAX_SCRYPT_BYTES);
type ScryptParameters = z.output<typeof scryptParameters>;
const derivation = z.discriminatedUnion("kdf", [
  z.object({ kdf: z.literal("scrypt"), kdfparams: scryptParameters }),
  z.object({
    kdf: z.literal("pbkdf2"),
    kdfparams: z.object({
      dklen: z.literal(DERIVED_BYTES),
      salt: hex,
      c: z.int().max(MAX_PBKDF2_ROUNDS),
      prf: z.literal("hmac-sha256"),
    }),
  }),
]);
const keystoreSchema = z.object({
  version: z.literal(3),
  crypto: derivation.and(
    z.object({
      cipher: z.literal("aes-128-ctr"),
      cipherparams: z.object({ iv: hex }),
      ciphertext: hex,
      mac: hex,
    }),
  ),
});

/**
 * Decrypts a keystore (Web3 Secret Storage, version 3), as geth, cast, ethers and eth-account write it. The slow part
 * runs in Node's thread pool.
 * @throws KeystoreProblem
 */
export async function decryptKeystore(json: string, password: string): Promise<PrivateKey> {
  try {
    const { crypto } = keystoreSchema.parse(JSON.parse(json));
    const derived = await deriveKey(crypto, password);
    const mac = keccak256(Buffer.concat([derived.subarray(16), crypto.ciphertext]), { as: "Hex" });
    if (mac !== `0x${crypto.mac.toString("hex")}`)
      throw new KeystoreProblem("does not open with the password");
    const decipher = createDecipheriv("aes-128-ctr", derived.subarray(0, 16), crypto.cipherparams.iv);
    const key = parsePrivateKey(`0x${decipher.update(crypto.ciphertext).toString("hex")}`);
    if (key === undefined) throw new KeystoreProblem("holds no private key of an EVM account");
    return key;
  } catch (error) {
    if (error instanceof KeystoreProblem) throw error;
    // The cause is left out because it may quote the file.
    throw new KeystoreProblem("is not Web3 Secret Storage of version 3, with scrypt or pbkdf2");
  }
}

function deriveKey({ kdf, kdfparams }: z.output<typeof derivation>, password: string): Promise<Buffer> {
  return kdf === "pbkdf2"
    ? promisify(pbkdf2)(password, kdfparams.salt, kdfparams.c, DERIVED_BYTES, "sha256")
    : deriveByScrypt(kdfparams, password);
}

async function deriveByScrypt({ salt, n, r, p }: ScryptParameters, password: string): Promise<Buffer> {
  // OpenSSL refuses the parameters of eth-account (n = 2^18, r = 1). The alternative blocks this thread for a second.
  if (n >= 2 ** (16 * r)) {
    const { scrypt: scryptHere } = await import("hash-wasm");
    const cost = { costFactor: n, blockSize: r, parallelism: p, hashLength: DERIVED_BYTES };
    return Buffer.from(await scryptHere({ password, salt, ...cost, outputType: "binary" }));
  }
  return new Promise((resolve, reject) => {
    scrypt(password, salt, DERIVED_BYTES, { N: n, r, p, maxmem: 2 * MAX_SCRYPT_BYTES }, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });
}
