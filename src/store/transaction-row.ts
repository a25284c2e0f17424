import type {
  NewTransaction,
  SignedTransaction,
  TransactionRecord,
  TransactionState,
} from "./contract/transaction-journal.ts";

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

/** Columns of a new row, in the order in which they are inserted. */
export const NEW_TRANSACTION_COLUMNS = [
  "network",
  "reference",
  "to_address",
  "data",
  "valid_before_secs",
  "queued_at",
] as const satisfies readonly (keyof TransactionRow)[];

/** Columns that change after a row was inserted. */
export const CHANGED_TRANSACTION_COLUMNS = [
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

/** Named one by one: a `*` would break the plans of running replicas when a newer one adds a column. */
export const TRANSACTION_COLUMN_LIST = [
  "id",
  ...NEW_TRANSACTION_COLUMNS,
  ...CHANGED_TRANSACTION_COLUMNS,
].join(", ");

/** Makes the row of a new transaction. */
export function toTransactionRow(
  { network, reference, to, data, validBefore }: NewTransaction,
  now: number,
): Pick<TransactionRow, (typeof NEW_TRANSACTION_COLUMNS)[number]> {
  return {
    network,
    reference: reference.toLowerCase(),
    to_address: to,
    data,
    valid_before_secs: validBefore ?? null,
    queued_at: now,
  };
}

/** Writes the texts of a signed transaction that are compared in lower case. */
export function normalSigned(signed: SignedTransaction): SignedTransaction {
  return {
    ...signed,
    reference: signed.reference.toLowerCase(),
    account: signed.account.toLowerCase(),
    hash: signed.hash.toLowerCase(),
    replaces: signed.replaces?.toLowerCase(),
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
