import type { TransactionRecord } from "../../transactions/store/journal.ts";
import { readBlockhash } from "../chain.ts";
import type { SolanaKey } from "../key.ts";
import { toBase58 } from "../portable/addresses.ts";
import { parseTransaction } from "../transaction.ts";
import type { OwnChain } from "./own-chain.ts";
import type { TransactionSigner } from "./sender.ts";

/**
 * Signs the transactions of payments as their fee payer. A signature is the same each time, so that a transaction which is
 * signed again is the same transaction, and lands once.
 */
export class SettlementSigner implements TransactionSigner {
  readonly expired = "dropped";
  readonly #feePayer: SolanaKey;
  readonly #chain: OwnChain;

  constructor(feePayer: SolanaKey, chain: OwnChain) {
    this.#feePayer = feePayer;
    this.#chain = chain;
  }

  get account(): string {
    return this.#feePayer.address;
  }

  async sign(queued: readonly TransactionRecord[]) {
    const signed = queued.map(({ reference, data }) => ({
      reference,
      ...signTransaction(this.#feePayer, data),
    }));
    return { signed, refused: [] };
  }

  async hasExpired({ data }: TransactionRecord): Promise<boolean> {
    const { blockhash } = parseTransaction(Buffer.from(data, "base64"));
    const { isValid } = await readBlockhash(await this.#chain.connect(), blockhash);
    return !isValid;
  }
}

/** Signs a transaction that waits for its fee payer. */
export function signTransaction(
  feePayer: SolanaKey,
  base64: string,
): { readonly raw: string; readonly hash: string } {
  const bytes = Buffer.from(base64, "base64");
  const signature = feePayer.sign(parseTransaction(bytes).message);
  // The number of signatures takes one byte.
  bytes.set(signature, 1);
  return { raw: bytes.toString("base64"), hash: toBase58(signature) };
}
