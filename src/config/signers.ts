import * as z from "zod";
import type { NetworkKind } from "../core/addresses.ts";
import { decryptKeystore, KeystoreProblem, type PrivateKey } from "../core/private-keys.ts";
import type { Checked } from "./check-shape.ts";
import type { Place } from "./mistakes.ts";
import { accountText, namedFile, privateKey, text } from "./value-types.ts";

/** Key that signs transactions: in the configuration, or in an encrypted file. */
export const signer = z.object({
  privateKey: privateKey().optional(),
  /** Path of a keystore (Web3 Secret Storage, version 3), relative to the configuration file. */
  keystore: namedFile("the path of a keystore file", { from: "configuration", isSecret: true }).optional(),
  password: text("the password of the keystore").optional(),
});

export type SignerTable = Checked<z.output<typeof signer>>;

export interface Signer {
  readonly privateKey: PrivateKey;
}

/** Reads the key of one signer. */
export async function readSigner(table: SignerTable, place: Place): Promise<Signer | undefined> {
  const privateKey = await readKey(table, place);
  return privateKey && { privateKey };
}

/** Reads the keys of several signers, all of which differ. @param tables an array, or a single table */
export async function readSigners(
  tables: SignerTable | readonly (SignerTable | undefined)[],
  place: Place,
): Promise<readonly Signer[]> {
  const found: Signer[] = [];
  for (const [i, table] of [tables].flat().entries()) {
    const at = Array.isArray(tables) ? place.at(i) : place;
    const read = table && (await readSigner(table, at));
    if (read === undefined) continue;
    if (found.some(({ privateKey }) => privateKey === read.privateKey))
      at.report("has the key of another signer; expected each key once");
    else found.push(read);
  }
  return found;
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

/** Checks the key of an account on networks that are not EVM chains. @returns its account; undefined after a mistake */
export function checkAccountKey(
  key: string,
  keys: NonNullable<NetworkKind["feePayers"]>,
  place: Place,
): string | undefined {
  try {
    const account = keys.accountOf(key);
    if (account !== undefined) place.isShownAs(`account ${account}`);
    else place.report(`is no such key, with ${key.length} characters; expected ${keys.expected}`);
    return account;
  } catch (error) {
    place.report(`${(error as Error).message}; expected ${keys.expected}`);
    return undefined;
  }
}
