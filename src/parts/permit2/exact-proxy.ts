import { permit2WitnessTypes, x402ExactPermit2ProxyAddress } from "@x402/evm";

/** A contract of x402 that settles payments of one scheme: the only spender that these payments may name. */
export interface X402Proxy {
  /** Scheme of x402. */
  readonly scheme: string;
  /** Lower case. */
  readonly address: `0x${string}`;
  /** Ends the sentence that the contract is missing. */
  readonly jobs: string;
  /** EIP-712 types of what its payers sign. */
  readonly witnessTypes: Readonly<
    Record<string, readonly { readonly name: string; readonly type: string }[]>
  >;
  /** Positions of words in the call data of its functions that settle, by selector. */
  readonly settles: Readonly<Record<string, Positions>>;
  /**
   * Set if payers sign a ceiling and the only account that can settle it. Undefined if payers sign the exact amount, which
   * any account can settle.
   */
  readonly ceiling?: {
    /** Reason why its payments cannot be adopted. */
    readonly refusal: string;
  };
}

/** Positions of words in call data. */
export interface Positions {
  readonly nonce: number;
  readonly owner: number;
  readonly facilitator?: number;
}

/** Contract that settles payments of the scheme exact. */
export const EXACT_PROXY: X402Proxy = {
  scheme: "exact",
  address: x402ExactPermit2ProxyAddress.toLowerCase() as `0x${string}`,
  jobs: "",
  witnessTypes: permit2WitnessTypes,
  settles: {
    "0x13cd3b53": { nonce: 2, owner: 4 }, // settle(permit, owner, witness, signature)
    "0xfa340378": { nonce: 7, owner: 9 }, // settleWithPermit(permit2612, permit, owner, witness, signature)
  },
};
