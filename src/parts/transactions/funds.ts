import type { Logger } from "pino";
import { formatEther } from "viem";
import { coinOf } from "../../chain/coins.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import type { Holding } from "../../x402/holding.ts";
import type { SettlerChain } from "./chain.ts";

interface Parts {
  readonly network: string;
  readonly chain: Pick<SettlerChain, "balance">;
  readonly addresses: readonly string[];
  readonly minBalanceWei: bigint;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Age up to which balances are used. */
const KEPT_MS = 3_000;

/** Balances of the accounts that pay for gas on one network. */
export class Funds {
  readonly #parts: Parts;
  #readAt = Number.NEGATIVE_INFINITY;
  #balances: Promise<ReadonlyMap<string, bigint>> | undefined;
  #last: ReadonlyMap<string, bigint> = new Map();
  #lastAt = 0;
  /** Accounts that were below the minimum when they were last read. */
  readonly #low = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Balances in wei by address, at most a few seconds old. @throws Error when the RPC does not answer */
  balances(): Promise<ReadonlyMap<string, bigint>> {
    const now = this.#parts.clock();
    if (this.#balances !== undefined && now - this.#readAt < KEPT_MS) return this.#balances;
    this.#readAt = now;
    const reading = this.#read().catch((error: unknown) => {
      if (this.#balances === reading) this.#balances = undefined;
      throw error;
    });
    this.#balances = reading;
    return reading;
  }

  /** Returns balances as they were last read, and begins to read them again. */
  lastBalances(): ReadonlyMap<string, bigint> {
    this.balances().catch(() => undefined);
    return this.#last;
  }

  /**
   * Returns balances as they were last read, with the time of the reading, and begins to read them again. Empty before the first
   * reading.
   */
  holdings(): Holding[] {
    const { network } = this.#parts;
    const of = { network, symbol: coinOf(network), asset: undefined, decimals: 18, readAt: this.#lastAt };
    const isShort = (account: string) => this.#low.has(account);
    return [...this.lastBalances()].map(([account, amount]) => ({
      ...of,
      account,
      amount,
      isShort: isShort(account),
    }));
  }

  /** @throws GatewayError `settler_unfunded`; another error when the RPC does not answer */
  async require(): Promise<void> {
    const { minBalanceWei } = this.#parts;
    const balances = [...(await this.balances()).values()];
    if (balances.some((balance) => balance >= minBalanceWei)) return;
    throw new GatewayError(
      "settler_unfunded",
      "Payments cannot be settled now, because the account that pays for gas is short of funds. Nothing was charged: try again later.",
      { headers: { "retry-after": "30" } },
    );
  }

  /**
   * Balances of the accounts to send from: the accounts that hold enough, or all accounts if none does. A payment that
   * was verified while there was enough should settle.
   */
  async usable(): Promise<ReadonlyMap<string, bigint>> {
    const balances = await this.balances();
    const enough = [...balances].filter(([, balance]) => balance >= this.#parts.minBalanceWei);
    return enough.length > 0 ? new Map(enough) : balances;
  }

  async #read(): Promise<ReadonlyMap<string, bigint>> {
    const { chain, addresses } = this.#parts;
    const balances = await Promise.all(addresses.map((address) => chain.balance(address)));
    const byAddress = new Map(addresses.map((address, i) => [address, balances[i] ?? 0n]));
    this.#last = byAddress;
    this.#lastAt = this.#parts.clock();
    for (const [address, balance] of byAddress) this.#logChange(address, balance);
    return byAddress;
  }

  #logChange(address: string, balanceWei: bigint): void {
    const { network, minBalanceWei, logger } = this.#parts;
    const isLow = balanceWei < minBalanceWei;
    if (isLow === this.#low.has(address)) return;
    const fields = {
      network,
      address,
      balance: formatEther(balanceWei),
      minBalance: formatEther(minBalanceWei),
    };
    if (isLow) {
      this.#low.add(address);
      logger.error(fields, "an account that sends transactions is below min_balance: send it funds for gas");
    } else {
      this.#low.delete(address);
      logger.info(fields, "an account that sends transactions has funds for gas again");
    }
  }
}
