import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import type { Clock } from "../../core/clock.ts";
import type { GaugeSample } from "../../core/instruments.ts";
import type { Locks } from "../../core/lease-lock.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Store } from "../../store/store.ts";
import type { SettlerAccount } from "./account.ts";
import { BatchSigner, type SenderOf } from "./batch.ts";
import { SettlerChain } from "./chain.ts";
import { Changes } from "./changes.ts";
import { Funds } from "./funds.ts";
import { Sender } from "./sender.ts";
import { settlerGauges } from "./settler-gauges.ts";
import { PaymentSigner } from "./signer.ts";
import { TRANSACTIONS } from "./store/module.ts";
import { Transactions } from "./transactions.ts";

/** Everything that settles on one network: its chain, the accounts' funds, and the transactions. */
export class NetworkSettler implements BackgroundService {
  readonly network: string;
  readonly funds: Funds;
  /** Name of its queue in the journal. One process owns the queue at a time. */
  readonly queue: string;
  readonly chain: SettlerChain;
  readonly #accounts: readonly SettlerAccount[];
  readonly #sender: Sender;
  readonly #transactions: Transactions;

  constructor(parts: {
    readonly network: string;
    /** Name of the queue of transactions. Default: the queue of the network's settlements. */
    readonly queue?: string;
    readonly rpcUrl: string;
    readonly rpcTimeoutMs: number;
    readonly accounts: readonly SettlerAccount[];
    readonly owner: string;
    readonly senderOf: SenderOf;
    readonly maxFeePerGasWei: bigint;
    readonly minBalanceWei: bigint;
    readonly store: Pick<Store, "of" | "isShared"> & Locks;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly telemetry: Telemetry;
  }) {
    const { network, queue = network, rpcUrl, rpcTimeoutMs, accounts } = parts;
    const { owner, senderOf, maxFeePerGasWei, minBalanceWei } = parts;
    const { store, clock, logger, telemetry } = parts;
    const journal = store.of(TRANSACTIONS);
    const chain = new SettlerChain({ network, rpcUrl, timeoutMs: rpcTimeoutMs, telemetry });
    const changes = new Changes();
    const addresses = accounts.map(({ address }) => address);
    this.network = network;
    this.queue = queue;
    this.funds = new Funds({ network, chain, addresses, minBalanceWei, clock, logger });
    this.chain = chain;
    this.#accounts = accounts;
    this.#sender = new Sender({
      network: queue,
      owner,
      journal,
      locks: store,
      isShared: store.isShared,
      chain,
      signer: new BatchSigner({
        network,
        chain,
        accounts,
        senderOf,
        funds: this.funds,
        maxFeePerGasWei,
        clock,
        logger,
      }),
      changes,
      clock,
      logger,
      telemetry,
    });
    this.#transactions = new Transactions({
      network: queue,
      journal,
      chain,
      sender: this.#sender,
      changes,
      clock,
    });
  }

  start(): Promise<void> {
    return this.#sender.start();
  }

  stop(): Promise<void> {
    return this.#sender.stop();
  }

  /** True while this process sends the queue's transactions. */
  get isOwner(): boolean {
    return this.#sender.isOwner;
  }

  /** Checks the queue now. */
  poke(): void {
    this.#sender.poke();
  }

  signerOf(payment: {
    readonly reference: string;
    readonly validBefore: number;
    readonly deadlineMs?: number;
    readonly amount: bigint;
    readonly sender?: string | undefined;
  }): PaymentSigner {
    return new PaymentSigner({
      sender: undefined,
      deadlineMs: undefined,
      ...payment,
      chain: this.chain,
      transactions: this.#transactions,
      addresses: this.#accounts.map(({ address }) => address),
    });
  }

  /** Does not wait for the chain. */
  gauges(): GaugeSample[] {
    const report = {
      network: this.queue,
      balances: this.funds.lastBalances(),
      unmined: this.#sender.unmined,
    };
    return settlerGauges(report);
  }

  holdings() {
    return this.funds.holdings();
  }
}
