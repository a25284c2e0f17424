import { type Server, ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "pino";
import type { RunnerConfig } from "../config/config.ts";
import type { BackgroundService } from "../core/background-service.ts";
import { type Clock, monotonicClock, systemClock } from "../core/clock.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { RunnerService } from "../gen/jobgate/v1/runner_pb.ts";
import { DirectService } from "../grpc/direct-service.ts";
import { ServerHealth } from "../grpc/health.ts";
import { addReflection } from "../grpc/reflection.ts";
import { addDirectService, close, createGrpcServer, listen, listenOnTcp } from "../grpc/server.ts";
import { bindUnixSocket, type UnixSocketFile } from "../node/unix-socket.ts";
import type { CalledJob, RetryBackoff, WorkQueue } from "../store/contract/work-queue.ts";
import type { StoreStatus } from "../store/store.ts";
import { Authentication, ServerCertificates } from "./credentials.ts";
import type { DeliveryObserver } from "./delivery-telemetry.ts";
import { type DeliveryCheck, Dispatcher } from "./dispatcher.ts";
import { LeaseRequests } from "./lease-requests.ts";
import { RUNNER_LIMITS } from "./runner-requests.ts";
import { RunnerServiceHandlers, type RunnerStreams } from "./runner-service.ts";
import type { RunnerReport } from "./subscription.ts";

/** Time in which calls in progress are answered after the last lease has ended. */
const CLOSE_TIMEOUT_MS = 2_000;
/**
 * The server pings a connection that was silent for `timeMs`, and cuts it when no answer comes within `timeoutMs`, so
 * that a frozen or half-open runner loses its stream.
 */
const DEFAULT_KEEPALIVE = { timeMs: 10_000, timeoutMs: 5_000 };

/** Serves runners over gRPC: `jobgate.v1.RunnerService`, `grpc.health.v1` and server reflection. */
export class RunnerServer implements BackgroundService {
  /** Dispatcher that runners with push delivery share. */
  readonly dispatcher: Dispatcher;
  readonly #config: RunnerConfig;
  readonly #workQueue: WorkQueue;
  readonly #status: () => StoreStatus;
  readonly #streams: () => RunnerStreams;
  readonly #logger: Logger;
  readonly #keepalive: typeof DEFAULT_KEEPALIVE;
  readonly #backoff: RetryBackoff;
  #running:
    | {
        readonly server: Server;
        readonly health: ServerHealth;
        readonly authentication: Authentication;
        readonly certificates: ServerCertificates | undefined;
        socketFile?: UnixSocketFile;
      }
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
    /** Called before each delivery of a JobCall that is charged after it ran. Default: every JobCall is delivered. */
    readonly check?: DeliveryCheck | undefined;
    /** Returns the size of the largest result of a job. Default: 1 MiB. */
    readonly maxResultBytes?: (job: CalledJob) => number;
    /** Methods in addition to Subscribe, Ack, Nack and Extend, looked up at the start. Default: none. */
    readonly streams?: () => RunnerStreams;
    readonly keepalive?: typeof DEFAULT_KEEPALIVE;
  }) {
    const { config, workQueue, logger, observer } = options;
    this.#config = config;
    this.#workQueue = workQueue;
    this.#status = options.status;
    this.#streams = options.streams ?? (() => ({}));
    this.#logger = logger;
    this.#keepalive = options.keepalive ?? DEFAULT_KEEPALIVE;
    this.#backoff = { baseMs: config.retryBaseMs, maxMs: config.retryMaxMs };
    this.dispatcher = new Dispatcher({
      workQueue,
      leaseMs: config.leaseMs,
      maxAttempts: config.maxAttempts,
      backoff: this.#backoff,
      clock: monotonicClock,
      wallClock: options.clock ?? systemClock,
      logger,
      observer,
      check: options.check,
      maxResultBytes: options.maxResultBytes,
    });
  }

  /** `host:port` as bound, or `unix:path`; empty before `start`. */
  get address(): string {
    return this.#address;
  }

  async start(): Promise<void> {
    const { leaseMs, maxAttempts, bindAddress, tls } = this.#config;
    const { dispatcher } = this;
    dispatcher.start();
    const backoff = this.#backoff;
    const logger = this.#logger;
    const certificates = tls && new ServerCertificates(tls);
    const credentials = certificates?.credentials ?? ServerCredentials.createInsecure();
    const authentication = new Authentication(this.#config);
    const server = createGrpcServer({
      "grpc.max_receive_message_length": RUNNER_LIMITS.requestBytes,
      "grpc.keepalive_time_ms": this.#keepalive.timeMs,
      "grpc.keepalive_timeout_ms": this.#keepalive.timeoutMs,
      interceptors: [authentication.interceptor],
    });
    const leaseRequests = new LeaseRequests({
      dispatcher,
      workQueue: this.#workQueue,
      leaseMs,
      maxAttempts,
      backoff,
    });
    const handlers = new RunnerServiceHandlers({
      dispatcher,
      leaseRequests,
      streams: this.#streams(),
      logger,
    });
    addDirectService(
      server,
      new DirectService({
        service: RunnerService,
        handlers: handlers.byMethod(),
        streamHandlers: handlers.streamsByMethod(),
        maxRequestBytes: RUNNER_LIMITS.requestBytes,
        refusal: (headers, stream) => authentication.refusal(headers, stream),
      }),
    );
    const health = new ServerHealth(server, {
      services: [RunnerService.typeName],
      isServing: () => !this.#stopping && this.#status().writable,
    });
    addReflection(server, [RunnerService, Health]);
    this.#running = { server, health, authentication, certificates };
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

  /** Uses new tokens and certificates from now on. Open connections and streams stay open. */
  reload({ tokens, tls }: Pick<RunnerConfig, "tokens" | "tls">): void {
    if (tls) this.#running?.certificates?.reload(tls);
    this.#running?.authentication.reload(tokens);
  }

  /** Describes every runner's open stream, the longest connected first. */
  runners(): RunnerReport[] {
    return this.dispatcher.report();
  }

  /**
   * First step of {@link stop}. Stops claiming work, and ends streams with UNAVAILABLE: a Subscribe stream at once, and a
   * stream that carries outcomes with its last lease. Ack, Nack and Extend are still answered.
   */
  endStreams(): void {
    this.#stopping = true;
    this.#running?.health.update();
    this.dispatcher.endStreams();
  }

  /** Waits up to `drainMs` for runners to finish their JobCalls, releases the rest, and closes. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.endStreams();
    await this.dispatcher.drain(this.#config.drainMs);
    if (this.#running === undefined) return;
    const { server, health, socketFile } = this.#running;
    health.stop();
    await close(server, CLOSE_TIMEOUT_MS);
    await socketFile?.remove();
  }
}
