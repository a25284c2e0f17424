import { decryptKeystore, KeystoreProblem, type PrivateKey } from "../core/private-keys.ts";
import type { Signer, SignerTable } from "./facilitators.ts";
import type { MistakeList, Place } from "./mistakes.ts";
import type { ConfigTables } from "./schema.ts";
import { accountText } from "./value-types.ts";

/**
 * Collects the keys of each local facilitator, and decrypts those in keystores.
 * @returns signers by the index of the facilitator's entry
 */
export async function readSigners(
  { x402 }: Pick<ConfigTables, "x402">,
  mistakes: MistakeList,
): Promise<ReadonlyMap<number, readonly Signer[]>> {
  const signers = new Map<number, readonly Signer[]>();
  for (const [i, facilitator] of (x402?.facilitators ?? []).entries()) {
    if (facilitator?.signer === undefined) continue;
    const place = mistakes.at("x402", "facilitators", i, "signer");
    const keys = new Set<PrivateKey>();
    const tables = withPlaces(facilitator.signer, place);
    for (const [table, at] of tables) {
      const key = await readKey(table, at);
      if (key === undefined) continue;
      if (keys.has(key)) at.report("has the key of another signer; expected each key once");
      keys.add(key);
    }
    signers.set(
      i,
      [...keys].map((privateKey) => ({ privateKey })),
    );
  }
  return signers;
}

/** Reads the key of one signer. */
export async function readSigner(table: SignerTable, place: Place): Promise<Signer | undefined> {
  const privateKey = await readKey(table, place);
  return privateKey && { privateKey };
}

async function readKey(
  { privateKey, keystore, password }: SignerTable,
  place: Place,
): Promise<PrivateKey | undefined> {
  const has = (key: string, value: unknown) => value !== undefined || place.at(key).isReported;
  const hasKey = has("private_key", privateKey);
  const hasKeystore = has("keystore", keystore);
  if (hasKey === hasKeystore) {
    const found = hasKey ? "has both private_key and keystore" : "has no key";
    place.report(`${found}; expected private_key, or keystore with its password`);
  } else if (hasKeystore !== has("password", password)) {
    const message = hasKeystore
      ? "is missing; expected the keystore's, as env:NAME or file:PATH"
      : "is never used; expected it beside keystore only";
    place.at("password").report(message);
  } else if (keystore !== undefined && password !== undefined) {
    return decrypt(keystore.text, password, place.at("keystore"));
  }
  return privateKey;
}

async function decrypt(keystore: string, password: string, place: Place): Promise<PrivateKey | undefined> {
  try {
    const key = await decryptKeystore(keystore, password);
    place.isShownAs(accountText(key));
    return key;
  } catch (error) {
    if (!(error instanceof KeystoreProblem)) throw error;
    place.report(`${error.message}; expected the path of a keystore file that opens with the password`);
    return undefined;
  }
}

type Configured = SignerTable | readonly (SignerTable | undefined)[];

function withPlaces(signer: Configured, place: Place): [SignerTable, Place][] {
  if (!isList(signer)) return [[signer, place]];
  return signer.flatMap((table, j) => (table === undefined ? [] : [[table, place.at(j)]]));
}

function isList(signer: Configured): signer is Exclude<Configured, SignerTable> {
  return Array.isArray(signer);
}
