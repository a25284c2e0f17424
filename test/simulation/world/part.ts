import type { WebhooksConfig, X402Config } from "../../../src/config/config.ts";
import type { ChannelsConfig } from "../../../src/parts/channels/config.ts";
import type { RefundsConfig } from "../../../src/parts/refunds/config.ts";
import type { Engine } from "./engine.ts";
import type { Laws } from "./laws.ts";
import type { Server } from "./network.ts";
import type { Peer } from "./peers.ts";
import type { Replica } from "./replica.ts";
import type { Simulation } from "./simulation.ts";

/** Somebody who comes at some time and wants something of the gateways. */
export interface Customer {
  readonly name: string;
  start(): void;
  readonly isDone: boolean;
}

/** Configuration of every gateway. */
export interface Shop {
  readonly x402: X402Config;
  /** The account that pays failed jobs back. */
  readonly refunds?: RefundsConfig;
  readonly channels?: ChannelsConfig;
  readonly webhooks?: WebhooksConfig;
  readonly engine?: Engine;
  /** JobCalls are pushed, too. */
  readonly pushes?: boolean;
  /** Buyers and the operator are called back. */
  readonly callsBack?: boolean;
}

/** The parts that customers deal with. */
export interface Surroundings {
  readonly simulation: Simulation;
  readonly replicas: readonly Replica[];
  readonly laws: Laws;
  readonly shop: Shop;
}

/** Parts that only some worlds have. */
export interface Part {
  configure?(shop: Shop): Shop;
  /** Servers that gateways ask. */
  readonly servers?: readonly { readonly host: string; readonly server: Server; readonly lossRate: number }[];
  /** Hosts that gateways send to. */
  peers?(surroundings: Surroundings): readonly Peer[];
  customers?(surroundings: Surroundings): readonly Customer[];
  /** Nothing is on its way on a chain of its own. */
  isQuiet?(): boolean;
}
