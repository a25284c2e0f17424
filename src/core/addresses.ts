import { getAddress } from "viem/utils";

/** What {@link parseEvmAddress} found: the address with its EIP-55 checksum, or what is wrong with the text. */
export type ParsedEvmAddress =
  | { readonly kind: "address"; readonly address: `0x${string}` }
  | { readonly kind: "malformed" }
  | { readonly kind: "wrong_checksum" };

/**
 * Reads an address as people write it: all lower case, all upper case, or with letter case as a checksum
 * (EIP-55), which then has to be right, since a wrong one means a digit was mistyped.
 */
export function parseEvmAddress(text: string): ParsedEvmAddress {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) return { kind: "malformed" };
  const address = getAddress(text.toLowerCase());
  const digits = text.slice(2);
  const oneCase = digits === digits.toLowerCase() || digits === digits.toUpperCase();
  return oneCase || text === address ? { kind: "address", address } : { kind: "wrong_checksum" };
}
