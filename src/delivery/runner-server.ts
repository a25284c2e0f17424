import { Server } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { RunnerConfig } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { Health as HealthService } from "../gen/grpc/health/v1/health_pb.ts";
import { RunnerService } from "../gen/jobgate/v1/runner_pb.ts";
import { addHealth, type Health } from "../grpc/health.ts";
import { addReflection } from "../grpc/reflection.ts";
import { close, listen, listenOnTcp } from "../grpc/server-socket.ts";
import { grpcServiceDefinition } from "../grpc/service-definition.ts";
import { bindUnixSocket, type UnixSocketFile } from "../node/unix-socket.ts";
import type { WorkQueue } from "../store/contract/work-queue.ts";
import type { StoreStatus } from "../store/store.ts";
import { createAuthentication } from "./authentication.ts";
import { createDispatcher, type DeliveryObserver, type Dispatcher, type RunnerReport } from "./dispatcher.ts";
import { RUNNER_LIMITS } from "./runner-requests.ts";
import { createRunnerService } from "./runner-service.ts";
import { readServerCredentials } from "./server-credentials.ts";

export interface RunnerServerOptions {
  readonly config: RunnerConfig;
  readonly workQueue: WorkQueue;
  /** Decides whether the server calls itself healthy. */
  readonly status: () => StoreStatus;
  readonly logger: Logger;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Is told of what goes out to runners. Default: nobody is. */
  readonly observer?: DeliveryObserver;
  /**
   * Pings a connection that was silent for this long, and cuts it when no answer comes within `timeoutMs`:
   * so a frozen or half-open runner loses its stream. Default: 10 s and 5 s.
   */
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
}

/** How long calls in hand may take to be answered once nothing is out any more. */
const CLOSE_TIMEOUT_MS = 2_000;

/** Serves runners over gRPC: `jobgate.v1.RunnerService`, `grpc.health.v1` and server reflection. */
export class RunnerServer implements BackgroundService {
  readonly #options: RunnerServerOptions;
  #running:
    | { server: Server; dispatcher: Dispatcher; health: Health; socketFile?: UnixSocketFile }
    | undefined;
  #address = "";
  #stopping = false;
  #stopped: Promise<void> | undefined;

  constructor(options: RunnerServerOptions) {
    this.#options = options;
  }

  /** `host:port` as really bound, or `unix:path`; empty before `start`. */
  get address(): string {
    return this.#address;
  }

  async start(): Promise<void> {
    const { config, workQueue, status, logger, observer, clock = systemClock } = this.#options;
    const { leaseMs, maxAttempts, bindAddress } = config;
    const credentials = await readServerCredentials(config.tls);
    const server = new Server(this.#serverOptions());
    const dispatcher = createDispatcher({
      workQueue,
      leaseMs,
      maxAttempts,
      clock,
      logger,
      ...(observer === undefined ? {} : { observer }),
    });
    const backoff = { baseMs: config.retryBaseMs, maxMs: config.retryMaxMs };
    server.addService(
      grpcServiceDefinition(RunnerService),
      createRunnerService({ dispatcher, leaseMs, maxAttempts, backoff, logger }),
    );
    const health = addHealth(server, {
      services: [RunnerService.typeName],
      isServing: () => !this.#stopping && status().writable,
    });
    addReflection(server, [RunnerService, HealthService]);
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

  /** Every runner's stream that is open, the longest connected first. */
  runners(): RunnerReport[] {
    return this.#running?.dispatcher.report() ?? [];
  }

  /**
   * The first part of {@link stop}: ends every Subscribe stream with UNAVAILABLE and claims no more work.
   * Ack, Nack and Extend are still answered.
   */
  endStreams(): void {
    this.#stopping = true;
    this.#running?.health.update();
    this.#running?.dispatcher.endStreams();
  }

  /** Gives runners `drainMs` to finish what they have, hands the rest back, and closes. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.endStreams();
    if (this.#running === undefined) return;
    const { server, dispatcher, health, socketFile } = this.#running;
    await dispatcher.drain(this.#options.config.drainMs);
    health.stop();
    await close(server, CLOSE_TIMEOUT_MS);
    await socketFile?.remove();
  }

  #serverOptions() {
    const { config, keepalive = { timeMs: 10_000, timeoutMs: 5_000 } } = this.#options;
    return {
      "grpc.max_receive_message_length": RUNNER_LIMITS.requestBytes,
      "grpc.keepalive_time_ms": keepalive.timeMs,
      "grpc.keepalive_timeout_ms": keepalive.timeoutMs,
      interceptors: [
        createAuthentication({ token: config.token, clientCertificate: config.tls?.clientCa !== undefined }),
      ],
    };
  }
}
