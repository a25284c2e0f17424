import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { ChainClient, chainIdOf } from "../../chain/chain-client.ts";
import type { AcceptedToken, X402Config } from "../../config/config.ts";
import { accountOf } from "../../core/private-keys.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import type { Store } from "../../store/store.ts";
import { type Facilitator, takesNetwork } from "../../x402/facilitators/facilitator.ts";
import { RemoteFacilitator } from "../../x402/facilitators/remote-facilitator.ts";
import type { ShopAddition } from "../../x402/part.ts";
import { channelAdopter } from "./adopted-channels.ts";
import { ChannelsFacilitator } from "./channels-facilitator.ts";
import type { ChannelsConfig } from "./config.ts";
import { LostVouchers } from "./lost-vouchers.ts";
import { NetworkChannels } from "./network-channels.ts";
import { NewestVouchers } from "./newest-vouchers.ts";
import { RefundProtocol } from "./protocol.ts";
import type { SettledSum } from "./receivers.ts";
import { ChannelRefunds } from "./refunds.ts";
import { CHANNELS } from "./store/module.ts";
import { CHANNEL_METHOD } from "./store/row.ts";
import { channelTerms } from "./terms.ts";

const RPC_TIMEOUT_MS = 5_000;
const ROUND_MS = 1_000;
const RETRY_MS = 10_000;
const MAX_WATCH_MS = 300_000;

interface Parts {
  readonly config: ChannelsConfig;
  readonly x402: X402Config;
  /** Returns jobgate's own facilitator; undefined if the configuration has none. */
  readonly own: () => Facilitator | undefined;
  readonly store: Store;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
}

/** Payment channels of all networks. */
export class Channels {
  readonly #networks = new Map<string, NetworkChannels>();
  readonly #addition: ShopAddition;
  #tokens: readonly AcceptedToken[];

  constructor(parts: Parts) {
    const { config, x402, store, logger, telemetry } = parts;
    const ledger = store.of(CHANNELS);
    const owner = randomUUID();
    this.#tokens = x402.acceptedTokens;
    for (const { network, rpcUrl } of this.#of()) {
      if (this.#networks.has(network) || rpcUrl === undefined) continue;
      const facilitator = new ChannelsFacilitator({
        network,
        facilitators: facilitatorsFor(network, parts),
        authorizers: config.authorizers.map(({ privateKey }) => privateKey),
      });
      const client = new ChainClient({
        ...{ rpcUrl, timeoutMs: RPC_TIMEOUT_MS, chainId: chainIdOf(network) },
        observer: { telemetry, purpose: "evidence" },
      });
      const { withdrawDelaySecs, claimEverySecs } = config;
      const watchMs = Math.min((withdrawDelaySecs * 1_000) / 4, claimEverySecs * 1_000, MAX_WATCH_MS);
      this.#networks.set(
        network,
        new NetworkChannels({
          ...{ network, config, ledger, locks: store, owner, facilitator, client, logger },
          tokens: () => this.#of().filter((token) => token.network === network),
          periods: { roundMs: ROUND_MS, watchMs, retryMs: RETRY_MS },
        }),
      );
    }
    const authorizers = new Set(
      config.authorizers.map(({ privateKey }) => accountOf(privateKey).toLowerCase()),
    );
    const refunds = new ChannelRefunds({ ledger, networkOf: (row) => this.networkOf(row) });
    this.#addition = {
      terms: channelTerms({
        ...{ ledger, journal: store, lost: new LostVouchers(logger) },
        adopt: channelAdopter({
          ledger,
          readerOf: (network) => this.#networks.get(network),
          tokens: () => this.#of(),
          logger,
        }),
        refresh: async (row) => this.networkOf(row)?.refresh(row),
        canSign: ({ receiverAuthorizer }) => authorizers.has(receiverAuthorizer),
        newest: store.isShared ? undefined : new NewestVouchers(),
      }),
      protocol: (protocol) => new RefundProtocol(protocol, refunds),
    };
  }

  /** The terms and the protocol that channels add to the sale of jobs. */
  get addition(): ShopAddition {
    return this.#addition;
  }

  /** Sums that have moved to receivers, on all networks. */
  get settled(): readonly (SettledSum & { readonly network: string })[] {
    return [...this.#networks].flatMap(([network, channels]) =>
      channels.settled.map((sum) => ({ ...sum, network })),
    );
  }

  /** Returns the work on the channels of a network; undefined for a network without channels. */
  networkOf({ network }: { readonly network: string }): NetworkChannels | undefined {
    return this.#networks.get(network);
  }

  async start(): Promise<void> {
    await Promise.all([...this.#networks.values()].map((network) => network.start()));
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#networks.values()].map((network) => network.stop()));
  }

  /** Uses the tokens of a reloaded configuration. Work on a network that the reload adds begins with the next start. */
  use(tokens: readonly AcceptedToken[]): void {
    this.#tokens = tokens;
  }

  #of(): readonly AcceptedToken[] {
    return this.#tokens.filter(({ transferMethod }) => transferMethod === CHANNEL_METHOD);
  }
}

/** Returns the facilitators of a network in their order. jobgate's own facilitator exists once all parts are built. */
function facilitatorsFor(
  network: string,
  { x402: { facilitators, facilitatorTimeoutMs: timeoutMs }, telemetry, own }: Parts,
): () => readonly Facilitator[] {
  const found = facilitators.flatMap((config): (() => Facilitator | undefined)[] => {
    if (config.kind !== "remote") return [own];
    if (config.networks !== undefined && !takesNetwork(config.networks, network)) return [];
    const remote = new RemoteFacilitator({ ...config, timeoutMs, telemetry });
    return [() => remote];
  });
  return () => found.flatMap((facilitator) => facilitator() ?? []);
}
