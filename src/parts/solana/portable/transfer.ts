import { bytesOf, joined, PROGRAMS } from "./addresses.ts";

/** Compute units and their price, in millionths of a lamport, as the official client sets them. */
const COMPUTE_UNIT_LIMIT = 20_000;
const COMPUTE_UNIT_PRICE = 1n;
const SIGNATURE_BYTES = 64;

/** Parts of a transaction that pays an offer. Accounts are addresses. */
export interface TransferParts {
  /** The facilitator's account, which signs last and pays for the transaction. */
  readonly feePayer: string;
  readonly payer: string;
  /** The payer's account of the token. */
  readonly source: string;
  readonly mint: string;
  /** The seller's account of the token. */
  readonly destination: string;
  /** Token units. */
  readonly amount: bigint;
  readonly decimals: number;
  readonly memo: string;
  readonly blockhash: string;
}

/** An instruction of a message. Accounts are addresses. */
export interface NewInstruction {
  readonly program: string;
  readonly accounts: readonly string[];
  readonly data: ArrayLike<number>;
}

/** Parts of a message. The first of the signers pays for the transaction, and its account is writable. */
interface MessageParts {
  readonly signers: readonly string[];
  /** Accounts beside the first signer that the instructions change. */
  readonly writable: readonly string[];
  readonly blockhash: string;
  readonly instructions: readonly NewInstruction[];
}

/** Returns a message of version 0 without address lookup tables. */
export function messageOf({
  signers,
  writable,
  blockhash,
  instructions,
}: MessageParts): Uint8Array<ArrayBuffer> {
  const named = instructions.flatMap(({ accounts, program }) => [...accounts, program]);
  const readonly = [...new Set(named)].filter((one) => !signers.includes(one) && !writable.includes(one));
  // Signers come first, and in both groups the writable accounts come first.
  const accounts = [...signers, ...writable, ...readonly];
  if (new Set(accounts).size !== accounts.length) throw new Error("the message names an account twice");
  return joined([
    Uint8Array.of(0x80, signers.length, signers.length - 1, readonly.length),
    length(accounts.length),
    ...accounts.map(bytesOf),
    bytesOf(blockhash),
    length(instructions.length),
    ...instructions.flatMap((one) => [
      Uint8Array.of(accounts.indexOf(one.program)),
      list(one.accounts.map((account) => accounts.indexOf(account))),
      list(one.data),
    ]),
    // No address lookup tables.
    length(0),
  ]);
}

/** Returns the instructions that bound the compute units of a transaction, and price them in millionths of a lamport. */
export function computeBudget(units: number, price: bigint): NewInstruction[] {
  const [program, accounts] = [PROGRAMS.computeBudget, []];
  return [
    { program, accounts, data: [2, ...littleEndian(BigInt(units), 4)] },
    { program, accounts, data: [3, ...littleEndian(price, 8)] },
  ];
}

/**
 * Returns the instruction that moves a token.
 * @param accounts the authority is the account that signs for the source
 */
export function transferChecked(
  {
    source,
    mint,
    destination,
    authority,
  }: Readonly<Record<"source" | "mint" | "destination" | "authority", string>>,
  { amount, decimals }: { readonly amount: bigint; readonly decimals: number },
): NewInstruction {
  const accounts = [source, mint, destination, authority];
  return { program: PROGRAMS.token, accounts, data: [12, ...littleEndian(amount, 8), decimals] };
}

export function memoOf(text: string): NewInstruction {
  return { program: PROGRAMS.memo, accounts: [], data: new TextEncoder().encode(text) };
}

/**
 * Returns the message of a transaction of version 0 that moves a token and has a memo. Its fee payer and its payer sign
 * it, in this order.
 */
export function transferMessage(parts: TransferParts): Uint8Array<ArrayBuffer> {
  const { feePayer, payer, source, destination, mint, blockhash, memo } = parts;
  if (new Set([feePayer, payer, source, destination, mint]).size < 5)
    throw new Error("the transfer names an account twice");
  return messageOf({
    signers: [feePayer, payer],
    writable: [source, destination],
    blockhash,
    instructions: [
      ...computeBudget(COMPUTE_UNIT_LIMIT, COMPUTE_UNIT_PRICE),
      transferChecked({ source, mint, destination, authority: payer }, parts),
      memoOf(memo),
    ],
  });
}

/**
 * Returns the transaction of a {@link transferMessage} as the network carries it. The fee payer has not signed it yet.
 * @param signature the payer's; absent for a transaction that a wallet signs
 */
export function transferTransaction(
  message: Uint8Array,
  signature = new Uint8Array(SIGNATURE_BYTES),
): Uint8Array<ArrayBuffer> {
  return transactionOf(message, [new Uint8Array(SIGNATURE_BYTES), signature]);
}

/**
 * Returns the bytes of a transaction.
 * @param signatures one for each signer, in the order of the message; 64 zeros for a missing signature
 */
export function transactionOf(
  message: Uint8Array,
  signatures: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> {
  return joined([length(signatures.length), ...signatures, message]);
}

function littleEndian(value: bigint, bytes: number): number[] {
  if (value < 0n || value >> BigInt(8 * bytes) > 0n)
    throw new Error(`${value} is not a number of ${bytes} bytes`);
  return Array.from({ length: bytes }, (_, i) => Number((value >> BigInt(8 * i)) & 0xffn));
}

/** Returns bytes, preceded by the number of bytes. */
function list(bytes: ArrayLike<number>): Uint8Array {
  return joined([length(bytes.length), Uint8Array.from(bytes)]);
}

/** Writes a length: 7 bits a byte, the lowest first. Nothing in a transaction needs three bytes. */
function length(value: number): Uint8Array {
  return value < 0x80 ? Uint8Array.of(value) : Uint8Array.of((value & 0x7f) | 0x80, value >> 7);
}
