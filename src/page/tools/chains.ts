/** Chains of one kind, on which a payment page of the shop can pay. */
export interface Chains {
  /** Returns the name of a network for people. @param network CAIP-2 */
  networkName(network: string): string;
  /** Reports whether a network's money is worth nothing. @param network CAIP-2 */
  isTestNetwork(network: string): boolean;
  /** Finds the wallets of this browser. @param show is called with all of them at each that is found */
  findWallets(show: (wallets: readonly Wallet[]) => void): void;
}

/** A wallet that can be chosen. The errors that it throws are words for its owner. */
export interface Wallet {
  readonly id: string;
  readonly name: string;
  /** A data URL. */
  readonly icon?: string | undefined;
  /** Connects an account that can pay an offer. Returns what has the owner sign the payment. */
  connect(offer: Requirements, token: PricedToken): Promise<SignPayment>;
}

/**
 * Has the owner of a wallet sign, and returns the payload of the payment.
 * @param nowSecs by the gateway's clock: the reader's may be wrong
 */
export type SignPayment = (nowSecs: number) => Promise<object>;

/** A token of a job, and how much of it the job costs. */
export interface PricedToken {
  /** CAIP-2. */
  readonly network: string;
  readonly symbol: string;
  /** Absent when unknown. */
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
