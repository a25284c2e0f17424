import { oneSpelling } from "../../../core/payment.ts";
import type { NewTransaction, SignedTransaction, TransactionRecord, TransactionState } from "./journal.ts";

/** Columns of a row of `settler_transactions`. */
export interface TransactionRow {
  id: number;
  network: string;
  reference: string;
  state: TransactionState;
  to_address: string;
  data: string;
  valid_before_secs: number | null;
  account: string | null;
  nonce: number | null;
  raw: string | null;
  hash: string | null;
  /** JSON array. */
  earlier_hashes: string;
  signed_at: number | null;
  mined_hash: string | null;
  block_number: string | null;
  /** Wei that it cost. */
  fee: string | null;
  reason: string | null;
  queued_at: number;
  finished_at: number | null;
}

/** Row without the ID that the database gave it. */
export type StoredTransaction = Omit<TransactionRow, "id">;

export const TRANSACTION_COLUMNS = [
  "network",
  "reference",
  "to_address",
  "data",
  "valid_before_secs",
  "queued_at",
  "state",
  "account",
  "nonce",
  "raw",
  "hash",
  "earlier_hashes",
  "signed_at",
  "mined_hash",
  "block_number",
  "fee",
  "reason",
  "finished_at",
] as const satisfies readonly (keyof TransactionRow)[];

/** Columns of a transaction that is not signed. */
export const UNSIGNED = {
  account: null,
  nonce: null,
  raw: null,
  hash: null,
  earlier_hashes: "[]",
  signed_at: null,
} as const satisfies Partial<TransactionRow>;

/** Makes the row of a new transaction. */
export function toTransactionRow(
  { network, reference, to, data, validBefore }: NewTransaction,
  now: number,
): StoredTransaction {
  return {
    network,
    reference: reference.toLowerCase(),
    to_address: to,
    data,
    valid_before_secs: validBefore ?? null,
    queued_at: now,
    ...{ state: "queued", ...UNSIGNED, mined_hash: null, block_number: null, fee: null },
    ...{ reason: null, finished_at: null },
  };
}

/** Writes the texts of a signed transaction that are compared in one spelling. */
export function normalSigned(signed: SignedTransaction): SignedTransaction {
  return {
    ...signed,
    reference: signed.reference.toLowerCase(),
    account: oneSpelling(signed.account),
    hash: oneSpelling(signed.hash),
    replaces: signed.replaces && oneSpelling(signed.replaces),
  };
}

export function toTransactionRecord(row: TransactionRow): TransactionRecord {
  return {
    id: row.id,
    network: row.network,
    reference: row.reference,
    state: row.state,
    to: row.to_address,
    data: row.data,
    queuedAt: row.queued_at,
    validBefore: row.valid_before_secs ?? undefined,
    ...signedPart(row),
    mined:
      row.mined_hash === null || row.block_number === null
        ? undefined
        : { hash: row.mined_hash, blockNumber: row.block_number },
    reason: row.reason ?? undefined,
  };
}

function signedPart(row: TransactionRow): Pick<TransactionRecord, "signed"> {
  const { account, nonce, raw, hash, signed_at: at } = row;
  if (account === null || nonce === null || raw === null || hash === null || at === null) return {};
  return { signed: { account, nonce, raw, hash, earlierHashes: JSON.parse(row.earlier_hashes), at } };
}
