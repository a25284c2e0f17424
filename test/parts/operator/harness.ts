import type { Config } from "../../../src/config/config.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { EventHub } from "../../../src/core/events.ts";
import { RunnerServer } from "../../../src/delivery/runner-server.ts";
import { HttpServer } from "../../../src/http/server.ts";
import type { OperatorAddition } from "../../../src/operator/methods.ts";
import { listMovements } from "../../../src/parts/books/operator.ts";
import { callbackOperation } from "../../../src/parts/callbacks/operator.ts";
import { OperatorServer } from "../../../src/parts/operator/server.ts";
import type { OperatorSources } from "../../../src/parts/operator/sources.ts";
import { pageRoutes } from "../../../src/parts/page/page-routes.ts";
import { refundMethods } from "../../../src/parts/refunds/operator.ts";
import { collectMetrics } from "../../../src/parts/telemetry/collectors.ts";
import { countEvents } from "../../../src/parts/telemetry/count-events.ts";
import { metricsRoutes } from "../../../src/parts/telemetry/metrics-routes.ts";
import { ProcessTelemetry } from "../../../src/parts/telemetry/process-telemetry.ts";
import type { Store } from "../../../src/store/store.ts";
import { emitEvents } from "../../../src/store-events.ts";
import { Methods } from "../../../src/x402/methods/methods.ts";
import { configOf } from "../../config/config-folder.ts";
import { type Log, startLog } from "../../helpers/log.ts";
import { openTestStore } from "../../helpers/test-store.ts";

/** An operator listener and a runner listener on one store. */
export interface OperatorUnderTest {
  /** The observed store: its changes become events. */
  readonly store: Store;
  readonly events: EventHub;
  readonly operator: OperatorServer;
  /** `http://host:port`; empty on a unix socket. */
  readonly url: string;
  readonly runnerAddress: string;
  readonly errors: Log["lines"];
  /** Number of streams that jobgate believes to be open. It notices the end of one a moment later. */
  connectedRunners(): number;
  /** Makes a dead letter. @returns its call id */
  bury(body?: string, reason?: string): Promise<number>;
  stop(): Promise<void>;
}

export const TOKEN = "the operator's token".replaceAll(" ", "-");

/** Job of the calls that {@link OperatorUnderTest.bury} makes. */
export const BURIED_JOB = 70n;

export async function startOperator(
  options: {
    token?: string;
    socketPath?: string;
    leaseMs?: number;
    maxAttempts?: number;
    maxPending?: number;
    rates?: OperatorSources["rates"];
    configuration?: Config;
    additions?: readonly OperatorAddition[];
    callbacks?: Parameters<typeof callbackOperation>[0]["sender"];
  } = {},
): Promise<OperatorUnderTest> {
  const {
    token,
    socketPath,
    leaseMs = 60_000,
    maxAttempts = 3,
    maxPending = 100_000,
    rates = () => [],
  } = options;
  const { logger, lines: errors } = startLog("error");
  const events = new EventHub();
  const telemetry = new ProcessTelemetry();
  const stopCounting = countEvents(events, telemetry);
  const opened = await openTestStore({ logger, maxPending, onCommitted: emitEvents(events) });
  const { store } = opened;
  const loopback = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const runnerConfig = {
    bindAddress: loopback,
    tokens: [],
    leaseMs,
    maxAttempts,
    retryBaseMs: 1,
    retryMaxMs: 10,
    drainMs: 0,
  };
  const configuration =
    options.configuration ?? (await configOf(`service_id = 1\nstore.max_pending = ${maxPending}\n`));
  const runners = new RunnerServer({
    config: runnerConfig,
    workQueue: store,
    status: () => store.status(),
    logger,
  });
  const address = socketPath === undefined ? loopback : ({ kind: "unix", path: socketPath } as const);
  const registry = collectMetrics({
    store,
    rates,
    runners: () => runners.runners(),
    gauges: () => [],
    clock: systemClock,
  });
  telemetry.addTo(registry);
  const operator: OperatorServer = new OperatorServer({
    server: new HttpServer({ address, logger }),
    tokens: () => (token === undefined ? [] : [token]),
    sources: {
      store,
      events,
      listeners: () => [
        { name: "runner", address: runners.address },
        { name: "operator", address: operator.address },
      ],
      rates,
      runners: () => runners.runners(),
      jobs: () => Promise.resolve([]),
      loadMethods: async () => new Methods(),
      additions: () =>
        options.additions ?? [
          { routes: metricsRoutes(registry), files: pageRoutes() },
          {
            loadApi: async () => ({
              methods: {
                ...refundMethods({ store, configuration: () => configuration, logger }),
                listMovements: (request) => listMovements(request, store),
              },
            }),
          },
          {
            loadApi: async () =>
              callbackOperation({
                store,
                sender: options.callbacks ?? { urls: [], poke: () => {}, test: async () => undefined },
              }),
          },
        ],
      counters: telemetry.counters,
      configuration: () => configuration,
      clock: systemClock,
    },
    logger,
  });
  await runners.start();
  await operator.start();
  return {
    store,
    events,
    operator,
    url: socketPath === undefined ? `http://${operator.address}` : "",
    runnerAddress: runners.address,
    errors,
    connectedRunners: () => runners.runners().length,
    async bury(body = "hello", reason = "no good") {
      const metadata = { "X-WEBHOOK-ORIGIN": "webhook", "X-WEBHOOK-PATH": "/hooks/test" };
      await store.accept({
        origin: "webhook",
        jobId: BURIED_JOB,
        serviceId: 1n,
        body: Buffer.from(body),
        metadata,
      });
      const {
        calls: [call],
      } = await store.claim({
        limit: 1,
        jobIds: [BURIED_JOB],
        leaseMs: 60_000,
        maxAttempts,
        subscriber: "burier",
      });
      if (call === undefined) throw new Error("nothing to bury");
      await store.fail(call, reason);
      return call.callId;
    },
    async stop() {
      await operator.stop();
      await runners.stop();
      await opened.stop();
      stopCounting();
      await telemetry.stop();
    },
  };
}

/** Calls the API as curl would: plain JSON over HTTP. */
export async function callJson(
  url: string,
  method: string,
  request: unknown = {},
  headers: Record<string, string> = {},
): Promise<{ status: number; answer: Record<string, unknown> }> {
  const response = await fetch(`${url}/jobgate.v1.OperatorService/${method}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(request),
  });
  return { status: response.status, answer: (await response.json()) as Record<string, unknown> };
}
