import type { GaugeSample } from "../core/instruments.ts";

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

/** Accounts of jobgate that send transactions on one network, as metrics and the operator see them. */
export interface SendingAccounts {
  /** Returns the gauges without waiting for the chain. */
  gauges(): GaugeSample[];
  /** Returns the coins for gas as they were last read, and begins to read them again. */
  holdings(): Holding[];
}
