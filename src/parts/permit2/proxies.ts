import {
  permit2WitnessTypes,
  uptoPermit2WitnessTypes,
  x402ExactPermit2ProxyAddress,
  x402UptoPermit2ProxyAddress,
} from "@x402/evm";

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
interface Positions {
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

/** Contract that settles payments of the scheme `upto`, whose jobs are metered. */
export const UPTO_PROXY: X402Proxy = {
  scheme: "upto",
  address: x402UptoPermit2ProxyAddress.toLowerCase() as `0x${string}`,
  jobs: ' for jobs with charge = "used"',
  witnessTypes: uptoPermit2WitnessTypes,
  settles: {
    "0xff11e7b4": { nonce: 2, owner: 5, facilitator: 7 }, // settle(permit, amount, owner, witness, signature)
    "0x016c1748": { nonce: 7, owner: 10, facilitator: 12 }, // settleWithPermit(permit2612, permit, amount, owner, witness, signature)
  },
  ceiling: {
    refusal:
      "The transaction made a metered payment, which was charged after its job ran: it cannot be adopted.",
  },
};

/** x402's proxies of this build. */
export const PROXIES: readonly X402Proxy[] = [EXACT_PROXY, UPTO_PROXY];

/** Returns the contract that settles a scheme, or that has an address, whatever its letter case. */
export function findProxy(
  of: { readonly scheme: string } | { readonly address: string },
): X402Proxy | undefined {
  return "scheme" in of
    ? PROXIES.find(({ scheme }) => scheme === of.scheme)
    : PROXIES.find(({ address }) => address === of.address.toLowerCase());
}
