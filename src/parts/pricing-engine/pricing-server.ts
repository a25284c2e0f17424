import type { Server } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { BackgroundService } from "../../core/background-service.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { PricingEngine } from "../../gen/pricing_engine/pricing_pb.ts";
import { ServerHealth } from "../../grpc/health.ts";
import { addReflection } from "../../grpc/reflection.ts";
import { close, createGrpcServer } from "../../grpc/server.ts";
import type { PricingEngineConfig } from "./config.ts";
import { MAX_MESSAGE_BYTES, RAW_ENGINE_METHODS } from "./engine-channel.ts";
import type { EngineClient } from "./engine-client.ts";
import { EngineService } from "./engine-service.ts";
import { PricingListener } from "./pricing-listener.ts";
import { QuotePaymentWriter } from "./quote-payment.ts";
import type { FindQuotePayment } from "./quotes.ts";

interface Parts {
  readonly config: Pick<PricingEngineConfig, "bindAddress" | "signing">;
  /** Stays open when the server stops. */
  readonly client: EngineClient;
  /** Default: quotes pass through unchanged. */
  readonly findPayment?: FindQuotePayment | undefined;
  readonly logger: Logger;
  readonly clock?: Clock;
}

/** Time for calls in progress to end when the server stops. */
const CLOSE_TIMEOUT_MS = 5_000;

/**
 * gRPC and gRPC-Web server that passes `pricing_engine.PricingEngine` through to the engine, with health and reflection.
 */
export class PricingServer implements BackgroundService {
  readonly #parts: Parts;
  #running: { server: Server; listener: PricingListener; health: ServerHealth } | undefined;
  #address = "";
  #stopping = false;
  #stopped: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Bound `host:port`; empty before `start`. */
  get address(): string {
    return this.#address;
  }

  async start(): Promise<void> {
    const { config, client, findPayment, logger, clock = systemClock } = this.#parts;
    const server = createGrpcServer({
      "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
    });
    const writer =
      findPayment && new QuotePaymentWriter({ findPayment, signing: config.signing, clock, logger });
    const amendJobPrice = async (message: Buffer, deadlineMs: number) =>
      writer ? writer.amend(message, deadlineMs) : message;
    server.addService(RAW_ENGINE_METHODS, new EngineService({ client, amendJobPrice, logger }).handlers);
    const health = new ServerHealth(server, {
      services: [PricingEngine.typeName],
      isServing: () => !this.#stopping,
    });
    addReflection(server, [PricingEngine, Health]);
    const listener = new PricingListener(server, logger);
    this.#running = { server, listener, health };
    try {
      this.#address = await listener.listen(config.bindAddress);
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
    const { server, listener, health } = this.#running;
    health.update();
    health.stop();
    listener.stopListening();
    await close(server, CLOSE_TIMEOUT_MS);
    await listener.close();
  }
}
