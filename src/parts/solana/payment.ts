import { createHash, randomBytes } from "node:crypto";
import * as z from "zod";
import { equalInConstantTime } from "../../core/constant-time.ts";
import type { SignedFields } from "../../x402/methods/method.ts";
import { isSignedBy } from "./key.ts";
import { PROGRAMS } from "./portable/addresses.ts";
import { MAX_BASE64_LENGTH, parseTransaction, SIGNATURE_BYTES, type Transaction } from "./transaction.ts";

/** Longest time in which a transaction can land: its blockhash must be one of the last 150 blocks'. */
const LONGEST_LIFE_SECS = 90;
/** Shortest time for which a blockhash is valid, less 5 s for its way to jobgate. */
const SHORTEST_LIFE_SECS = 55;

/** A memo of a 402 that names a blockhash: time at which jobgate read the blockhash in Unix seconds, chance, seal. */
const SEALED_MEMO = /^([0-9]{10})-([0-9a-f]{16})-([\w-]{22})$/;

/** Makes the memo of a 402, which shows the age of the blockhash beside it. @param readAt Unix milliseconds */
export function sealedMemo(blockhash: string, readAt: number, seal: (text: string) => string): string {
  const stamp = `${Math.floor(readAt / 1000)}-${randomBytes(8).toString("hex")}`;
  return `${stamp}-${sealOf(blockhash, stamp, seal)}`;
}

/** Reports whether a transaction has a blockhash and a memo that jobgate gave in one 402. */
export function hasSealedMemo({ memo, transaction }: Transfer, seal: (text: string) => string): boolean {
  const [, secs, chance, found = ""] = SEALED_MEMO.exec(memo) ?? [];
  return (
    secs !== undefined && equalInConstantTime(found, sealOf(transaction.blockhash, `${secs}-${chance}`, seal))
  );
}

function sealOf(blockhash: string, stamp: string, seal: (text: string) => string): string {
  return seal(`blockhash of a 402\n${blockhash}\n${stamp}`).slice(0, 22);
}
/** Limit of the official facilitator, which refuses transactions above it. */
const MAX_INSTRUCTIONS = 7;

/** A transaction that only moves a token once, with a memo. */
export interface Transfer {
  readonly transaction: Transaction;
  /** The account that signs first, and pays for the transaction. */
  readonly feePayer: string;
  /** The owner of the account that the token leaves. */
  readonly payer: string;
  /** The account that the token leaves. */
  readonly source: string;
  readonly mint: string;
  /** The account that the token goes to. */
  readonly destination: string;
  /** Token units. */
  readonly amount: bigint;
  readonly decimals: number;
  readonly memo: string;
}

/** Reads the transfer of a transaction in base64. @throws Error that says what else the transaction is or does */
export function readTransfer(base64: string): Transfer {
  const bytes = Buffer.from(base64, "base64");
  if (bytes.toString("base64") !== base64) throw new Error("it is not in base64");
  const transaction = parseTransaction(bytes);
  const { accounts, signatures, instructions } = transaction;
  const [feePayer, payer] = accounts;
  if (signatures.length !== 2 || feePayer === undefined || payer === undefined)
    throw new Error("it is not signed by its fee payer and its payer alone");
  if (signatures[0]?.some((byte) => byte !== 0)) throw new Error("its fee payer has signed it already");
  if (instructions.length > MAX_INSTRUCTIONS) throw new Error("it has too many instructions");
  const [limit, price, transfer, ...others] = instructions;
  if (limit?.program !== PROGRAMS.computeBudget || limit.data[0] !== 2 || limit.data.length !== 5)
    throw new Error("its first instruction is not SetComputeUnitLimit");
  if (price?.program !== PROGRAMS.computeBudget || price.data[0] !== 3 || price.data.length !== 9)
    throw new Error("its second instruction is not SetComputeUnitPrice");
  if (transfer?.program !== PROGRAMS.token || transfer.data[0] !== 12 || transfer.data.length !== 10)
    throw new Error("its third instruction is not TransferChecked of the SPL Token program");
  const [source, mint, destination, authority, ...more] = transfer.accounts;
  if (source === undefined || mint === undefined || destination === undefined || more.length > 0)
    throw new Error("its transfer has other accounts than source, mint, destination and owner");
  if (authority !== payer) throw new Error("its transfer is not signed by its payer");
  if (source === destination) throw new Error("its transfer moves nothing");
  if (instructions.some((one) => one.accounts.includes(feePayer)))
    throw new Error("an instruction names the fee payer");
  const memos = others.filter(({ program }) => program === PROGRAMS.memo);
  if (others.some(({ program }) => program !== PROGRAMS.memo && program !== PROGRAMS.lighthouse))
    throw new Error("it has instructions beside its transfer and its memo");
  const memo = memos[0];
  if (memo === undefined || memos.length > 1) throw new Error("it has no memo, or several");
  const data = Buffer.from(transfer.data);
  return {
    transaction,
    feePayer,
    payer,
    source,
    mint,
    destination,
    amount: data.readBigUInt64LE(1),
    decimals: data.readUInt8(9),
    memo: Buffer.from(memo.data).toString(),
  };
}

/** Reads the transfer of a transaction that its fee payer has signed. @throws Error as {@link readTransfer} does */
export function readLandedTransfer(bytes: Uint8Array): Transfer {
  const unsigned = Buffer.from(bytes);
  // The number of signatures takes one byte, and the fee payer's signature comes first.
  unsigned.fill(0, 1, 1 + SIGNATURE_BYTES);
  return readTransfer(unsigned.toString("base64"));
}

/** Reads the transfer of a payment that was accepted. */
export function transferIn({ payload }: { readonly payload: string }): Transfer {
  const signed = JSON.parse(payload) as { readonly payload: { readonly transaction: string } };
  return readTransfer(signed.payload.transaction);
}

/** Reports whether the payer of a transfer signed its transaction. */
export function isSignedByPayer({ transaction, payer }: Transfer): boolean {
  return isSignedBy(payer, transaction.message, transaction.signatures[1] ?? Buffer.alloc(0));
}

/** The payload of a payment: a transaction that its payer signed and its fee payer has not. */
export const payload = z
  .object({ transaction: z.string().max(MAX_BASE64_LENGTH) })
  .strict()
  .transform(({ transaction: base64 }, context): SignedFields => {
    try {
      return toSignedFields(readTransfer(base64));
    } catch (error) {
      context.addIssue({ code: "custom", message: (error as Error).message });
      return z.NEVER;
    }
  });

function toSignedFields({ transaction, payer, destination, amount, memo }: Transfer): SignedFields {
  const { message, messageHash, signatures } = transaction;
  const fingerprint = createHash("sha256")
    .update(signatures[1] ?? "")
    .update(message)
    .digest("hex");
  return {
    from: payer,
    to: destination,
    value: amount,
    validAfter: 0n,
    validBefore: BigInt(endOf(memo, Date.now())),
    nonce: messageHash,
    fingerprint,
  };
}

/**
 * Returns the end of a transaction in Unix seconds. If its memo is from a 402 that names its blockhash, returns the
 * earliest possible end. Otherwise returns the latest possible end, because the transaction itself names no time. Only
 * the chain shows when a blockhash has expired.
 */
function endOf(memo: string, now: number): number {
  const latest = Math.ceil(now / 1000) + LONGEST_LIFE_SECS;
  const [, readAt] = SEALED_MEMO.exec(memo) ?? [];
  return readAt === undefined ? latest : Math.min(latest, Number(readAt) + SHORTEST_LIFE_SECS);
}
