import { checksum } from "ox/Address";

/** An address with its EIP-55 checksum, or the reason why a text is not one. */
type ParsedEvmAddress =
  | { readonly kind: "address"; readonly address: `0x${string}` }
  | { readonly kind: "malformed" }
  | { readonly kind: "wrong_checksum" };

/**
 * Parses an EVM address in lower case, in upper case, or with an EIP-55 checksum. A wrong checksum is refused, because
 * it means that a digit is mistyped.
 */
export function parseEvmAddress(text: string): ParsedEvmAddress {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) return { kind: "malformed" };
  const address = checksum(text.toLowerCase() as `0x${string}`);
  const digits = text.slice(2);
  const oneCase = digits === digits.toLowerCase() || digits === digits.toUpperCase();
  return oneCase || text === address ? { kind: "address", address } : { kind: "wrong_checksum" };
}

/** Networks that are not EVM chains, as the configuration sees them. */
export interface NetworkKind {
  /** Name for people. */
  readonly title: string;
  /** CAIP-2 networks by the name that x402 has for them. */
  readonly names: ReadonlyMap<string, string>;
  /** Reports whether a CAIP-2 network is of this kind. */
  has(network: string): boolean;
  /** Description of an address, which completes "expected …". */
  readonly address: string;
  isAddress(text: string): boolean;
  /** Keys of the accounts that pay for transactions. Undefined if jobgate sends no transactions on these networks. */
  readonly feePayers?: {
    /** Description of a key, which completes "expected …". */
    readonly expected: string;
    /**
     * Returns the account of a key, which is secret.
     * @returns undefined for a text that is not a key. @throws Error that says what is wrong with a key, and quotes nothing
     *   of it
     */
    accountOf(key: string): string | undefined;
  };
}
