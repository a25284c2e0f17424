import { createHash, createPublicKey, verify } from "node:crypto";
import * as z from "zod";
import type { SignedFields } from "../../x402/methods/method.ts";
import { bytesOf, PROGRAMS } from "./addresses.ts";
import { MAX_BASE64_LENGTH, parseTransaction, type Transaction } from "./transaction.ts";

/** Longest time in which a transaction can land: its blockhash must be one of the last 150 blocks'. */
const LIFETIME_SECS = 90;
/** Limit of the official facilitator, which refuses transactions above it. */
const MAX_INSTRUCTIONS = 7;

/** A transaction that moves a token once, for a memo, and does nothing else. */
export interface Transfer {
  readonly transaction: Transaction;
  /** The account that signs first, and pays for the transaction. */
  readonly feePayer: string;
  /** The owner of the account that the token leaves. */
  readonly payer: string;
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
    mint,
    destination,
    amount: data.readBigUInt64LE(1),
    decimals: data.readUInt8(9),
    memo: Buffer.from(memo.data).toString(),
  };
}

/** Reports whether the payer of a transfer signed its transaction. */
export function isSignedByPayer({ transaction, payer }: Transfer): boolean {
  const x = bytesOf(payer).toString("base64url");
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  return verify(null, transaction.message, key, transaction.signatures[1] ?? Buffer.alloc(0));
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

function toSignedFields({ transaction, payer, destination, amount }: Transfer): SignedFields {
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
    // An upper bound: the transaction names a blockhash and no time. Only the chain shows when that blockhash has expired.
    validBefore: BigInt(Math.ceil(Date.now() / 1000) + LIFETIME_SECS),
    nonce: messageHash,
    settler: undefined,
    fingerprint,
  };
}
