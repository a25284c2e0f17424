import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { PricingEngineConfig } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { PricingEngine } from "../gen/pricing_engine/pricing_pb.ts";
import { addReflection } from "../grpc/reflection.ts";
import { close, listenOnTcp, ServerHealth } from "../grpc/server.ts";
import { limitAmendments } from "./amendment.ts";
import { MAX_MESSAGE_BYTES } from "./engine-channel.ts";
import type { EngineClient } from "./engine-client.ts";
import { RAW_ENGINE_METHODS } from "./engine-methods.ts";
import { createEngineService } from "./engine-service.ts";
import { createQuotePaymentWriter, type PayWith } from "./quote-payment.ts";

export interface PricingServerOptions {
  readonly config: Pick<PricingEngineConfig, "bindAddress" | "signing">;
  /** Not stopped with the server. */
  readonly client: EngineClient;
  /** Default: quotes go through as they are. */
  readonly payWith?: PayWith;
  readonly logger: Logger;
  /** Default: the system's. */
  readonly clock?: Clock;
}

/** How long calls in hand may take to be answered. */
const CLOSE_TIMEOUT_MS = 5_000;

/** Serves the pricing engine to clients of jobgate: `pricing_engine.PricingEngine`, health and server reflection. */
export class PricingServer implements BackgroundService {
  readonly #options: PricingServerOptions;
  #running: { server: Server; health: ServerHealth } | undefined;
  #address = "";
  #stopping = false;
  #stopped: Promise<void> | undefined;

  constructor(options: PricingServerOptions) {
    this.#options = options;
  }

  /** `host:port` as really bound; empty before `start`. */
  get address(): string {
    return this.#address;
  }

  async start(): Promise<void> {
    const { config, client, payWith, logger, clock = systemClock } = this.#options;
    const server = new Server({
      "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
    });
    const amendJobPrice = payWith
      ? limitAmendments({
          amend: createQuotePaymentWriter({ payWith, signing: config.signing, clock, logger }),
          logger,
        })
      : async (message: Buffer) => message;
    server.addService(RAW_ENGINE_METHODS, createEngineService({ client, amendJobPrice, logger }));
    const health = new ServerHealth(server, {
      services: [PricingEngine.typeName],
      isServing: () => !this.#stopping,
    });
    addReflection(server, [PricingEngine, Health]);
    this.#running = { server, health };
    try {
      this.#address = await listenOnTcp(server, config.bindAddress, ServerCredentials.createInsecure());
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping = true;
    if (this.#running === undefined) return;
    const { server, health } = this.#running;
    health.update();
    health.stop();
    await close(server, CLOSE_TIMEOUT_MS);
  }
}
