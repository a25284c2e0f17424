/** Chains of one kind, on which a payment page of the shop can pay. */
export interface Chains {
  /** Returns the name of a network for people. @param network CAIP-2 */
  networkName(network: string): string;
  /** Returns true if a network's money is worth nothing. @param network CAIP-2 */
  isTestNetwork(network: string): boolean;
  /** Finds the wallets of this browser. @param show called with all wallets found so far, each time a wallet is found */
  findWallets(show: (wallets: readonly Wallet[]) => void): void;
}

/** A wallet that can be chosen. Its errors have messages for the wallet's owner. */
export interface Wallet {
  readonly id: string;
  readonly name: string;
  /** A data URL. */
  readonly icon?: string | undefined;
  /** Connects an account that can pay an offer. Returns a function that lets the owner sign the payment. */
  connect(offer: Requirements, token: PricedToken): Promise<SignPayment>;
}

/**
 * Lets the owner of a wallet sign a payment, and returns the payment's payload.
 * @param nowSecs time on the gateway's clock, because the reader's clock may be wrong
 */
export type SignPayment = (nowSecs: number) => Promise<object>;

/** A token in which a job is sold, and the job's price in it. */
export interface PricedToken {
  /** CAIP-2. */
  readonly network: string;
  readonly symbol: string;
  /** Undefined if the decimals are unknown. */
  readonly decimals?: number;
  /** Token units. */
  readonly amount: string;
}

/** An offer that a payment answers, from `PAYMENT-REQUIRED`. */
export interface Requirements {
  readonly scheme: string;
  /** CAIP-2. */
  readonly network: string;
  readonly asset: string;
  /** Token units. */
  readonly amount: string;
  readonly payTo: string;
  readonly maxTimeoutSeconds: number;
  /** Further terms of payments on its chain. */
  readonly extra: Readonly<Record<string, string | undefined>>;
}
