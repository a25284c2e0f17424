/** An offer of x402's scheme `exact`, as a 402 response lists it. */
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
   * @param known `decimals` of the token, if they are known; `rpcUrl` of the network, to query values that neither the offer
   *   nor jobgate has
   * @returns the payload. @throws Error that says why the offer cannot be paid
   */
  pay(
    offer: ExactOffer,
    known: { readonly decimals: number | undefined; readonly rpcUrl: string | undefined },
  ): Promise<Record<string, unknown>>;
}

/** Payments on networks other than EVM chains, signed with a private key. */
export interface NetworkPayer {
  /** Description of a private key, which completes "expected …". */
  readonly key: string;
  /**
   * Reads a private key.
   * @returns undefined for a text that is not a key. @throws Error that says what is wrong with a key, and quotes nothing of
   *   it
   */
  read(text: string): Payer | undefined;
}
