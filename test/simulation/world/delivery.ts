import type { Logger } from "pino";
import type { RunnerConfig } from "../../../src/config/config.ts";
import type { EventHub } from "../../../src/core/events.ts";
import type { Dispatcher } from "../../../src/delivery/dispatcher.ts";
import { RunnerServer } from "../../../src/delivery/runner-server.ts";
import { CallbackKeys } from "../../../src/parts/callbacks/callback-keys.ts";
import { CallbackSender } from "../../../src/parts/callbacks/callback-sender.ts";
import { buyersTable } from "../../../src/parts/callbacks/config.ts";
import { CALLBACKS } from "../../../src/parts/callbacks/store/module.ts";
import { workStream } from "../../../src/parts/work-stream/work-stream.ts";
import type { Store } from "../../../src/store/store.ts";
import type { X402Gateway } from "../../../src/x402/gateway.ts";
import { CALLBACK_ENDPOINT, CALLBACK_KEY, resolverOf } from "./callback-hosts.ts";
import type { Shop } from "./part.ts";
import type { Simulation } from "./simulation.ts";

export const LEASE_MS = 5_000;

export const RUNNER_CONFIG: RunnerConfig = {
  bindAddress: { kind: "tcp", host: "127.0.0.1", port: 2 },
  tokens: [],
  leaseMs: LEASE_MS,
  maxAttempts: 4,
  retryBaseMs: 500,
  retryMaxMs: 4_000,
  drainMs: 1_000,
};

/** Keys that sign callbacks. */
export async function callbackKeys(): Promise<CallbackKeys> {
  const keys = new CallbackKeys((candidate) => Promise.resolve(candidate));
  await keys.use([CALLBACK_KEY]);
  return keys;
}

/** Starts what carries a gateway's JobCalls to runners, and callbacks to buyers. Returns what hands out JobCalls. */
export async function startDelivery(
  simulation: Simulation,
  { x402, callsBack }: Shop,
  parts: {
    readonly store: Store;
    readonly gateway: X402Gateway;
    readonly keys: CallbackKeys;
    readonly events: EventHub;
    readonly logger: Logger;
  },
): Promise<Dispatcher> {
  const { store, gateway, logger, keys, events } = parts;
  const server = new RunnerServer({
    ...{ config: RUNNER_CONFIG, workQueue: store, logger, status: () => store.status() },
    check: (callId) => gateway.charges.findShortfall(callId),
    streams: () => workStream,
  });
  await server.start();
  const { dispatcher } = server;
  if (!callsBack) return dispatcher;
  const callbacks = new CallbackSender({
    ...{
      ledger: store.of(CALLBACKS),
      store,
      keys,
      events,
      logger,
      resolver: resolverOf(simulation),
    },
    callUrl: (callId) => `https://shop.example/x402/calls/${callId}`,
  });
  await callbacks.use({ endpoints: [CALLBACK_ENDPOINT], buyers: buyersTable.in(x402) });
  await callbacks.start();
  return dispatcher;
}
