import type { Logger } from "pino";
import type { StoreConfig } from "./config/config.ts";
import { encodeJobCall } from "./delivery/job-call-codec.ts";
import type { Store } from "./store/store.ts";

/**
 * Opens the store that the configuration names: `sqlite:PATH` or `postgres://…`. The only place that knows the kinds of
 * store; the code of one that is not used is not loaded.
 */
export async function openStore(config: StoreConfig, logger: Logger): Promise<Store> {
  const { url, maxPending, postgres } = config;
  if (url.startsWith("sqlite:")) {
    const { openSqliteStore } = await import("./store/sqlite/sqlite-store.ts");
    return openSqliteStore({ path: url.slice("sqlite:".length), maxPending, encodeJobCall, logger });
  }
  const { openPostgresStore } = await import("./store/postgres/postgres-store.ts");
  return openPostgresStore({ url, ...postgres, maxPending, encodeJobCall, logger });
}
