import type { Server } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { RunnerConfig } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, monotonicClock, systemClock } from "../core/clock.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { RunnerService } from "../gen/jobgate/v1/runner_pb.ts";
import { addReflection } from "../grpc/reflection.ts";
import { close, createGrpcServer, listen, listenOnTcp, ServerHealth } from "../grpc/server.ts";
import { grpcServiceDefinition } from "../grpc/service-definition.ts";
import { bindUnixSocket, type UnixSocketFile } from "../node/unix-socket.ts";
import type { WorkQueue } from "../store/contract/work-queue.ts";
import type { StoreStatus } from "../store/store.ts";
import { createAuthentication, readServerCredentials } from "./credentials.ts";
import { type DeliveryObserver, Dispatcher } from "./dispatcher.ts";
import { RUNNER_LIMITS } from "./runner-requests.ts";
import { RunnerServiceHandlers } from "./runner-service.ts";
import type { RunnerReport } from "./subscription.ts";

/** Time that calls in progress have to be answered once no lease is out any more. */
const CLOSE_TIMEOUT_MS = 2_000;
/**
 * The server pings a connection that was silent for `timeMs`, and cuts it when no answer comes within `timeoutMs`, so
 * that a frozen or half-open runner loses its stream.
 */
const DEFAULT_KEEPALIVE = { timeMs: 10_000, timeoutMs: 5_000 };

/** Serves runners over gRPC: `jobgate.v1.RunnerService`, `grpc.health.v1` and server reflection. */
export class RunnerServer implements BackgroundService {
  readonly #config: RunnerConfig;
  readonly #workQueue: WorkQueue;
  readonly #status: () => StoreStatus;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #observer: DeliveryObserver | undefined;
  readonly #keepalive: typeof DEFAULT_KEEPALIVE;
  #running:
    | { server: Server; dispatcher: Dispatcher; health: ServerHealth; socketFile?: UnixSocketFile }
    | undefined;
  #address = "";
  #stopping = false;
  #stopped: Promise<void> | undefined;

  constructor(options: {
    readonly config: RunnerConfig;
    readonly workQueue: WorkQueue;
    /** The server reports itself healthy while the store is writable. */
    readonly status: () => StoreStatus;
    readonly logger: Logger;
    readonly clock?: Clock;
    readonly observer?: DeliveryObserver;
    readonly keepalive?: typeof DEFAULT_KEEPALIVE;
  }) {
    this.#config = options.config;
    this.#workQueue = options.workQueue;
    this.#status = options.status;
    this.#logger = options.logger;
    this.#clock = options.clock ?? systemClock;
    this.#observer = options.observer;
    this.#keepalive = options.keepalive ?? DEFAULT_KEEPALIVE;
  }

  /** `host:port` as bound, or `unix:path`; empty before `start`. */
  get address(): string {
    return this.#address;
  }

  async start(): Promise<void> {
    const { leaseMs, maxAttempts, retryBaseMs, retryMaxMs, bindAddress, tls } = this.#config;
    const logger = this.#logger;
    const credentials = await readServerCredentials(tls);
    const server = createGrpcServer({
      "grpc.max_receive_message_length": RUNNER_LIMITS.requestBytes,
      "grpc.keepalive_time_ms": this.#keepalive.timeMs,
      "grpc.keepalive_timeout_ms": this.#keepalive.timeoutMs,
      interceptors: [createAuthentication(this.#config)],
    });
    const backoff = { baseMs: retryBaseMs, maxMs: retryMaxMs };
    const dispatcher = new Dispatcher({
      workQueue: this.#workQueue,
      leaseMs,
      maxAttempts,
      backoff,
      clock: monotonicClock,
      wallClock: this.#clock,
      logger,
      observer: this.#observer,
    });
    const handlers = new RunnerServiceHandlers({ dispatcher, leaseMs, maxAttempts, backoff, logger });
    server.addService(grpcServiceDefinition(RunnerService), handlers.byMethod());
    const health = new ServerHealth(server, {
      services: [RunnerService.typeName],
      isServing: () => !this.#stopping && this.#status().writable,
    });
    addReflection(server, [RunnerService, Health]);
    this.#running = { server, dispatcher, health };
    try {
      if (bindAddress.kind === "unix") {
        const bind = async (path: string) => void (await listen(server, `unix:${path}`, credentials));
        this.#running.socketFile = await bindUnixSocket(bindAddress.path, bind);
        this.#address = `unix:${bindAddress.path}`;
      } else {
        this.#address = await listenOnTcp(server, bindAddress, credentials);
      }
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** Describes every runner's open stream, the longest connected first. */
  runners(): RunnerReport[] {
    return this.#running?.dispatcher.report() ?? [];
  }

  /**
   * Does the first part of {@link stop}: ends every Subscribe stream with UNAVAILABLE and claims no more work.
   * Ack, Nack and Extend are still answered.
   */
  endStreams(): void {
    this.#stopping = true;
    this.#running?.health.update();
    this.#running?.dispatcher.endStreams();
  }

  /** Waits up to `drainMs` for runners to finish what they have, hands the rest back, and closes. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.endStreams();
    if (this.#running === undefined) return;
    const { server, dispatcher, health, socketFile } = this.#running;
    await dispatcher.drain(this.#config.drainMs);
    health.stop();
    await close(server, CLOSE_TIMEOUT_MS);
    await socketFile?.remove();
  }
}
