import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { isEvm } from "../../chain/chain-client.ts";
import type { AcceptedToken } from "../../config/config.ts";
import type { BackgroundService } from "../../core/background-service.ts";
import { monotonicClock } from "../../core/clock.ts";
import type { GaugeSample } from "../../core/instruments.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Store } from "../../store/store.ts";
import type { Holding } from "../../x402/holding.ts";
import type { Methods } from "../../x402/methods/methods.ts";
import { ChainEvidence } from "../../x402/settlement/chain-evidence.ts";
import type { TransferSender } from "../../x402/transfer-sender.ts";
import { SettlerAccount } from "../transactions/account.ts";
import { NetworkSettler } from "../transactions/network-settler.ts";
import { TRANSACTIONS } from "../transactions/store/module.ts";
import type { RefundsConfig } from "./config.ts";
import { EvmRefunds } from "./evm-refunds.ts";
import type { ShortToken } from "./gauges.ts";
import { NetworkRefunds } from "./network-refunds.ts";
import { REFUNDS } from "./store/module.ts";

/** Longest time of one RPC call. */
const RPC_TIMEOUT_MS = 5_000;
/** Time between the two observations of the chain that must agree that a payment was not made. */
const SECOND_LOOK_MS = 500;
const ROUND_MS = 1_000;

interface Network {
  readonly sender: TransferSender;
  readonly refunds: NetworkRefunds;
}

/** Pays failed jobs back, on every network of an accepted token. */
export class Refunds implements BackgroundService {
  readonly #parts: {
    readonly config: RefundsConfig;
    readonly methods: Methods;
    readonly store: Store;
    readonly logger: Logger;
    readonly telemetry: Telemetry;
  };
  readonly #account: SettlerAccount | undefined;
  readonly #owner = randomUUID();
  readonly #evidence: ChainEvidence;
  readonly #networks = new Map<string, Network>();
  #tokens: readonly AcceptedToken[] = [];

  constructor(parts: {
    readonly config: RefundsConfig;
    readonly methods: Methods;
    readonly tokens: readonly AcceptedToken[];
    readonly store: Store;
    readonly logger: Logger;
    readonly telemetry: Telemetry;
  }) {
    const { config, telemetry } = parts;
    this.#parts = parts;
    this.#account = config.signer && new SettlerAccount(config.signer.privateKey);
    this.#evidence = new ChainEvidence({
      methods: parts.methods,
      tokens: [],
      rpcTimeoutMs: RPC_TIMEOUT_MS,
      secondLookAfterMs: SECOND_LOOK_MS,
      telemetry,
    });
    this.#add(parts.tokens);
  }

  /** Sends refunds from now on. The start succeeds even if no chain answers yet. */
  async start(): Promise<void> {
    await Promise.all([...this.#networks.values()].map(({ refunds }) => refunds.start()));
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#networks.values()].map(({ refunds }) => refunds.stop()));
  }

  /** Adds a reloaded configuration's tokens. Networks that it leaves out stay: refunds on them may be owed. */
  async use(tokens: readonly AcceptedToken[]): Promise<void> {
    await Promise.all(this.#add(tokens).map(({ refunds }) => refunds.start()));
  }

  /** Gas and waiting transactions on each network. */
  gauges(): GaugeSample[] {
    return [...this.#networks.values()].flatMap(({ sender }) => sender.gauges());
  }

  /** Tokens and coins of the account on each network, as they were last read. */
  holdings(): Holding[] {
    return [...this.#networks.values()].flatMap(({ sender, refunds }) => [
      ...refunds.holdings(),
      ...sender.holdings(),
    ]);
  }

  /** Tokens that the account is short of. */
  get shortTokens(): ShortToken[] {
    return [...this.#networks].flatMap(([network, { refunds }]) =>
      refunds.shortTokens.map((asset) => ({ network, asset })),
    );
  }

  /** @returns the new networks */
  #add(tokens: readonly AcceptedToken[]): Network[] {
    this.#tokens = tokens;
    this.#evidence.watch(tokens);
    return tokens.flatMap(({ network, rpcUrl }) => {
      if (rpcUrl === undefined || this.#networks.has(network)) return [];
      const sender = this.#openSender(network, rpcUrl);
      if (sender === undefined) return [];
      const added = { sender, refunds: this.#refundsBy(sender, network) };
      this.#networks.set(network, added);
      return [added];
    });
  }

  /** @returns undefined if the configuration has no account that sends refunds on the network */
  #openSender(network: string, rpcUrl: string): TransferSender | undefined {
    const { config, methods, store, logger, telemetry } = this.#parts;
    const { maxFeePerGasWei, minBalanceWei } = config;
    // Refunds have a queue and an owner of their own, because the refund account never signs payments, and a settler's
    // account never signs refunds.
    const own = { queue: `${network}/refunds`, owner: this.#owner };
    const common = { network, rpcUrl, rpcTimeoutMs: RPC_TIMEOUT_MS, minBalanceWei, ...own };
    const services = { store, clock: monotonicClock, logger, telemetry };
    const feePayer = config.accounts.get(network);
    if (feePayer !== undefined)
      return methods.ownSettlement(network)?.openTransfers({
        ...common,
        ...services,
        feePayer,
        onShort: (account, coin) =>
          logger.error({ account }, `refunds wait: send ${coin} to the refund account`),
        onDelay: (reference, reason) =>
          logger.warn({ reference, reason }, "a refund waits: its transaction cannot be simulated now"),
      });
    if (!isEvm(network) || this.#account === undefined) return undefined;
    const settler = new NetworkSettler({
      ...common,
      ...services,
      accounts: [this.#account],
      senderOf: () => undefined,
      maxFeePerGasWei,
    });
    const { address: account } = this.#account;
    return new EvmRefunds({
      account,
      settler,
      journal: store.of(TRANSACTIONS),
      tokens: () => this.#tokensOf(network),
    });
  }

  #refundsBy(sender: TransferSender, network: string): NetworkRefunds {
    const { store, logger } = this.#parts;
    return new NetworkRefunds({
      network,
      sender,
      ledger: store.of(REFUNDS),
      store,
      evidence: this.#evidence,
      tokens: () => this.#tokensOf(network),
      roundMs: ROUND_MS,
      logger,
    });
  }

  #tokensOf(network: string): readonly AcceptedToken[] {
    return this.#tokens.filter((token) => token.network === network);
  }
}
