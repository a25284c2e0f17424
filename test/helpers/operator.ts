import type { Config } from "../../src/config/config.ts";
import { EventHub } from "../../src/core/events.ts";
import { NO_TELEMETRY } from "../../src/core/telemetry.ts";
import { RunnerServer } from "../../src/delivery/runner-server.ts";
import { HttpServer } from "../../src/http/server.ts";
import { loadParts, offerTelemetry } from "../../src/load-parts.ts";
import type { OperatorAddition } from "../../src/operator/methods.ts";
import type { Host, Running } from "../../src/part.ts";
import type { Store } from "../../src/store/store.ts";
import { emitEvents } from "../../src/store-events.ts";
import { configOf } from "../config/config-folder.ts";
import { type Log, startLog } from "./log.ts";
import { openTestStore } from "./test-store.ts";

/** The operator's listener, with what the parts of this build add to it, and a runner listener on one store. */
export interface OperatorUnderTest {
  /** The observed store: its changes become events. */
  readonly store: Store;
  readonly events: EventHub;
  readonly operator: { readonly address: string };
  /** `http://host:port`; empty on a unix socket. */
  readonly url: string;
  readonly runnerAddress: string;
  readonly errors: Log["lines"];
  /** Number of streams that jobgate believes to be open. It notices the end of one a moment later. */
  connectedRunners(): number;
  /** Makes a dead letter. @returns its call id */
  deadLetter(body?: string, reason?: string): Promise<number>;
  /** Ends the streams, as the start of a stop does. */
  close(): Promise<void>;
  stop(): Promise<void>;
}

export const TOKEN = "the operator's token".replaceAll(" ", "-");

/** Job of the calls that {@link OperatorUnderTest.deadLetter} makes. */
export const DEAD_LETTER_JOB = 70n;

export async function startOperator(
  options: {
    readonly token?: string;
    readonly socketPath?: string;
    readonly leaseMs?: number;
    readonly maxAttempts?: number;
    readonly maxPending?: number;
    readonly rates?: Host["rates"];
    /** The configuration that operators see. The parts are built without it. */
    readonly configuration?: Config;
    /** Replaces what the parts add to the listener. */
    readonly additions?: (store: Store) => readonly OperatorAddition[];
  } = {},
): Promise<OperatorUnderTest> {
  const { token, socketPath, leaseMs = 60_000, maxAttempts = 3, maxPending = 100_000 } = options;
  const { logger, lines: errors } = startLog("error");
  const events = new EventHub();
  const opened = await openTestStore({ logger, maxPending, onCommitted: emitEvents(events) });
  const { store } = opened;
  const loopback = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const plain = await configOf(`service_id = 1\nstore.max_pending = ${maxPending}\n`);
  const operatorConfig = {
    bindAddress: socketPath === undefined ? loopback : ({ kind: "unix", path: socketPath } as const),
    tokens: token === undefined ? [] : [token],
  };
  const runners = new RunnerServer({
    config: {
      bindAddress: loopback,
      tokens: [],
      leaseMs,
      maxAttempts,
      retryBaseMs: 1,
      retryMaxMs: 10,
      drainMs: 0,
    },
    workQueue: store,
    status: () => store.status(),
    logger,
  });
  const offered = await offerTelemetry(logger);
  let parts: Running[] = [];
  const additions: Host["additions"] = (seam) =>
    parts.map((part) => part[seam]).filter((added) => added !== undefined);
  const host: Host = {
    ...{ store, events, logger },
    config: { ...(options.configuration ?? plain), operator: operatorConfig },
    telemetry: offered?.telemetry ?? NO_TELEMETRY,
    dispatcher: runners.dispatcher,
    additions,
    get listeners() {
      return [
        { name: "runner", address: runners.address },
        ...additions("listener").map(({ name, service }) => ({ name, address: service.address })),
      ];
    },
    isOpen: true,
    jobs: () => Promise.resolve([]),
    runners: () => runners.runners(),
    rates: options.rates ?? (() => []),
    serverAt: (address) => new HttpServer({ address, logger }),
  };
  parts = (await loadParts({ ...plain, operator: operatorConfig }, offered)).map((build) => build(host));
  if (options.additions)
    parts = [
      ...parts.map(({ operator: _, ...others }) => others),
      ...options.additions(store).map((operator) => ({ operator })),
    ];
  const [operator] = additions("listener");
  if (operator === undefined) throw new Error("this build has no part with the operator's listener");
  await runners.start();
  for (const part of parts) await part.open?.();
  const { address } = operator.service;
  return {
    store,
    events,
    operator: { address },
    url: socketPath === undefined ? `http://${address}` : "",
    runnerAddress: runners.address,
    errors,
    connectedRunners: () => runners.runners().length,
    async deadLetter(body = "hello", reason = "no good") {
      const metadata = { "X-WEBHOOK-ORIGIN": "webhook", "X-WEBHOOK-PATH": "/hooks/test" };
      await store.accept({
        origin: "webhook",
        jobId: DEAD_LETTER_JOB,
        serviceId: 1n,
        body: Buffer.from(body),
        metadata,
      });
      const {
        calls: [call],
      } = await store.claim({
        limit: 1,
        jobIds: [DEAD_LETTER_JOB],
        leaseMs: 60_000,
        maxAttempts,
        subscriber: "burier",
      });
      if (call === undefined) throw new Error("no JobCall to dead-letter");
      await store.fail(call, reason);
      return call.callId;
    },
    async close() {
      await Promise.all(parts.map(async (part) => part.close?.()));
    },
    async stop() {
      for (const part of parts.toReversed()) await part.stop?.();
      await runners.stop();
      await opened.stop();
      await offered?.stop();
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
