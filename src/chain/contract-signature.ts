import { type Rpc, RpcError } from "./rpc.ts";

/** `isValidSignature(bytes32 hash, bytes signature)`. */
const IS_VALID_SIGNATURE = "0x1626ba7e";
const ERC1271_MAGIC = `0x1626ba7e${"0".repeat(56)}`;

/** Calls an account's contract to verify a signature (ERC-1271). An address without code approves no signature. */
export async function contractApproves(
  rpc: Rpc,
  { account, hash, signature }: Readonly<Record<"account" | "hash" | "signature", `0x${string}`>>,
): Promise<boolean> {
  try {
    return (
      (await rpc.callContract(account, isValidSignatureCall(hash, signature))).toLowerCase() === ERC1271_MAGIC
    );
  } catch (error) {
    // Some contracts revert the call if they refuse the signature.
    if (error instanceof RpcError && error.isRevert) return false;
    throw error;
  }
}

function isValidSignatureCall(hash: `0x${string}`, signature: `0x${string}`): string {
  const bytes = signature.slice(2);
  const words = Math.ceil(bytes.length / 64);
  // The hash, the offset of the bytes (after two words), their length, and the bytes padded to whole words.
  const length = BigInt(bytes.length / 2);
  return `${IS_VALID_SIGNATURE}${word(hash)}${word(64n)}${word(length)}${bytes.padEnd(words * 64, "0")}`;
}

/** Returns a number, or an address or hash in hex, as a word of call data. */
export function word(value: bigint | `0x${string}`): string {
  return BigInt(value).toString(16).padStart(64, "0");
}
