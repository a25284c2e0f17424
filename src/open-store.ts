import type { Logger } from "pino";
import type { StoreConfig } from "./config/config.ts";
import { encodeJobCall } from "./delivery/job-call-codec.ts";
import type { BatchListener, Store } from "./store/store.ts";

/**
 * Opens the store that the configuration names: `sqlite:PATH` or `postgres://…`. The only place that knows the kinds of
 * store; the code of one that is not used is not loaded.
 * @param onBatch is told of every write
 */
export async function openStore(
  config: StoreConfig,
  logger: Logger,
  onBatch?: BatchListener,
): Promise<Store> {
  const { url, maxPending, ...connection } = config;
  const common = { maxPending, encodeJobCall, logger, ...(onBatch === undefined ? {} : { onBatch }) };
  if (url.startsWith("sqlite:")) {
    const { openSqliteStore } = await import("./store/sqlite/sqlite-store.ts");
    return openSqliteStore({ ...common, path: url.slice("sqlite:".length) });
  }
  const { openPostgresStore } = await import("./store/postgres/postgres-store.ts");
  return openPostgresStore({ ...common, url, ...connection });
}
