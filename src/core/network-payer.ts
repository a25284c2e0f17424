/** An offer of x402's scheme `exact`, as a 402 has it. */
export interface ExactOffer {
  /** CAIP-2. */
  readonly network: string;
  readonly asset: string;
  readonly payTo: string;
  /** Base units, decimal. */
  readonly amount: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** An account that pays offers on networks of one kind. */
export interface Payer {
  readonly address: string;
  /**
   * Signs the payment of an offer.
   * @param known `decimals` of the token, where they are known; `rpcUrl` of the network, for what neither the offer nor jobgate knows
   * @returns the payload. @throws Error that says why the offer cannot be paid
   */
  pay(
    offer: ExactOffer,
    known: { readonly decimals: number | undefined; readonly rpcUrl: string | undefined },
  ): Promise<Record<string, unknown>>;
}

/** Payments on networks of one kind that is not that of EVM chains, from a private key alone. */
export interface NetworkPayer {
  /** Description of a private key, which completes "expected …". */
  readonly key: string;
  /**
   * Reads a private key.
   * @returns undefined for a text that is not one. @throws Error that says what is wrong with a key, and quotes nothing of it
   */
  read(text: string): Payer | undefined;
}
