import type { Logger } from "pino";
import type { Config } from "./config/config.ts";
import { EventHub } from "./core/events.ts";
import { NO_TELEMETRY, type Telemetry } from "./core/telemetry.ts";
import type { Gateway } from "./host.ts";
import { requirePages } from "./http/page-files.ts";
import { loadMethods, loadParts, loadX402Parts, offerTelemetry } from "./load-parts.ts";
import { openStore as openConfiguredStore } from "./open-store.ts";
import { emitEvents } from "./store-events.ts";
import type { X402Periods } from "./x402/gateway-options.ts";

/** Starts everything that the configuration uses. If a part fails to start, the started parts are stopped again. */
export async function startGateway(options: {
  readonly config: Config;
  readonly logger: Logger;
  /** Default: opens the store that the configuration names. */
  readonly openStore?: typeof openConfiguredStore;
  /** Ends the wait for a store that is not reachable yet. */
  readonly signal?: AbortSignal;
  readonly periods?: Partial<X402Periods>;
}): Promise<Gateway> {
  const { config, logger, openStore = openConfiguredStore, signal, periods } = options;
  // An incomplete installation must not migrate the store.
  requirePages();
  const offered = await offerTelemetry(logger);
  const telemetry = offered?.telemetry ?? NO_TELEMETRY;
  const events = new EventHub();
  const opening = openStore(config.store, logger, {
    onBatch: measureBatches(telemetry),
    onCommitted: emitEvents(events),
    tracing: telemetry.tracing,
    signal,
  });
  try {
    // The store's threads start while this thread loads the modules. If the gateway sells no jobs, viem is not loaded.
    const [store, { Gateway }, x402, methods, parts] = await Promise.all([
      opening,
      import("./host.ts"),
      config.x402 && import("./x402/gateway.ts"),
      config.x402 && loadMethods(),
      loadParts(config, offered),
    ]);
    const gateway = new Gateway({
      ...{ config, logger, telemetry: offered, events, store, periods, x402, methods, parts },
      x402Parts: loadX402Parts,
    });
    await gateway.start();
    return gateway;
  } catch (error) {
    // The store's threads and connections would keep the process alive.
    await opening.then((store) => store.close()).catch(() => undefined);
    throw error;
  }
}

/** Returns a listener that records the size and the duration of each batch that the store commits. */
function measureBatches(telemetry: Telemetry) {
  const durationOf = (outcome: string) =>
    telemetry.histogram("jobgate_store_commit_duration_seconds", { outcome });
  const [committedIn, failedIn] = [durationOf("committed"), durationOf("failed")];
  const sizes = telemetry.histogram("jobgate_store_commit_operations", {});
  return (batch: {
    readonly operations: number;
    readonly durationMs: number;
    readonly committed: boolean;
  }): void => {
    const { operations, durationMs, committed } = batch;
    (committed ? committedIn : failedIn).observe(durationMs / 1000);
    sizes.observe(operations);
  };
}
