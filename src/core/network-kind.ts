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
}
