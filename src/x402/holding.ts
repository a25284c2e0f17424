/** Balance of an account of jobgate when it was last read. */
export interface Holding {
  /** CAIP-2. */
  readonly network: string;
  readonly account: string;
  readonly symbol: string;
  /** Undefined means the network's own coin. */
  readonly asset: string | undefined;
  /** Base units. */
  readonly amount: bigint;
  readonly decimals: number;
  /** True if payments wait for a higher balance. */
  readonly isShort: boolean;
  /** Unix milliseconds. */
  readonly readAt: number;
}
