import { oneSpelling } from "../../../core/payment.ts";
import type { SignedTransaction, TransactionEnd } from "./journal.ts";
import { type StoredTransaction, UNSIGNED } from "./row.ts";

/** State on which signatures for one network depend. */
interface SignContext {
  findRow(reference: string): StoredTransaction | undefined;
  findLastNonce(account: string): number | undefined;
  readonly now: number;
}

/**
 * Applies all signatures or none. A nonce is taken only after the last nonce of its account, and without a gap inside
 * one call, because a gap would hold up every later transaction of the account. The first nonce may be higher than the
 * next free nonce, because the account may have sent something elsewhere.
 * @returns the changed rows and the last nonces by account; undefined if one signature does not fit
 */
export function applySignatures(
  signed: readonly SignedTransaction[],
  { findRow, findLastNonce, now }: SignContext,
): { readonly rows: StoredTransaction[]; readonly lastNonces: ReadonlyMap<string, number> } | undefined {
  const changed = new Map<string, StoredTransaction>();
  const lastNonces = new Map<string, number>();
  for (const transaction of signed) {
    const { reference, account, nonce, raw, hash, replaces } = transaction;
    const row = changed.get(reference) ?? findRow(reference);
    if (row === undefined) return undefined;
    if (replaces === undefined) {
      const previous = lastNonces.get(account);
      const follows =
        previous === undefined ? nonce > (findLastNonce(account) ?? -1) : nonce === previous + 1;
      if (row.state !== "queued" || !follows) return undefined;
      lastNonces.set(account, nonce);
    } else if (!isReplaceable(row, transaction)) {
      return undefined;
    }
    const earlier = row.hash === null ? [] : [...JSON.parse(row.earlier_hashes), row.hash];
    const signature = { account, nonce, raw, hash, earlier_hashes: JSON.stringify(earlier), signed_at: now };
    changed.set(reference, { ...row, ...signature, state: "sent" });
  }
  return { rows: [...changed.values()], lastNonces };
}

function isReplaceable(row: StoredTransaction, { account, nonce, replaces }: SignedTransaction): boolean {
  return row.state === "sent" && row.account === account && row.nonce === nonce && row.hash === replaces;
}

/** @returns the transaction as it is queued; undefined if it is known, and was not dropped */
export function queuedAgain(
  known: StoredTransaction | undefined,
  queued: StoredTransaction,
): StoredTransaction | undefined {
  if (known === undefined) return queued;
  return known.state === "dropped"
    ? { ...known, state: "queued", reason: null, finished_at: null }
    : undefined;
}

/** Applies the end of a transaction. @returns undefined if its state does not allow it */
export function applyEnd(
  row: StoredTransaction,
  end: TransactionEnd,
  now: number,
): StoredTransaction | undefined {
  const isMined = row.state === "succeeded" || row.state === "reverted";
  switch (end.state) {
    case "dropped":
      // A signed transaction may have been broadcast, and without the transaction its nonce would be a gap.
      if (row.state !== "queued") return undefined;
      return { ...row, state: "dropped", reason: end.reason, finished_at: now };
    case "sent":
      if (!isMined) return undefined;
      return { ...row, state: "sent", mined_hash: null, block_number: null, fee: null, finished_at: null };
    case "queued":
      return row.state === "sent" ? { ...row, ...UNSIGNED, state: "queued" } : undefined;
    case "succeeded":
    case "reverted": {
      if (row.state !== "sent" && !isMined) return undefined;
      const { hash, blockNumber, fee = null } = end;
      const mined = { mined_hash: oneSpelling(hash), block_number: blockNumber, fee };
      return { ...row, ...mined, state: end.state, finished_at: row.finished_at ?? now };
    }
  }
}

/** Checks whether a transaction that was sent is in a block now. */
export function isMinedNow(before: StoredTransaction, after: StoredTransaction): boolean {
  return before.state === "sent" && (after.state === "succeeded" || after.state === "reverted");
}
