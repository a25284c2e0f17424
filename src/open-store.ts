import type { Logger } from "pino";
import type { StoreConfig, StorePlace } from "./config/config.ts";
import { encodeJobCall } from "./delivery/job-call-codec.ts";
import type { StoreInspection } from "./store/contract/inspection.ts";
import type { StoreOptions, StoreWait } from "./store/create-store.ts";
import type { Store } from "./store/store.ts";

const SQLITE = "sqlite:";

/** Place of a store. If it has no tables of parts, the defaults of the parts apply. */
type AnyPlace = Pick<StorePlace, "url"> & Partial<StorePlace>;

/**
 * Opens the store that the configuration names: the core's `sqlite:PATH`, or a store whose scheme a part knows. Only the
 * code of that kind of store is loaded.
 */
export async function openStore(
  {
    url,
    maxPending,
    maxResultsBytes,
    parts = new Map(),
  }: AnyPlace & Pick<StoreConfig, "maxPending"> & Partial<Pick<StoreConfig, "maxResultsBytes">>,
  logger: Logger,
  hooks: Pick<StoreOptions, "onBatch" | "onCommitted" | "tracing"> & StoreWait = {},
): Promise<Store> {
  const { signal, connectTimeoutMs, ...listeners } = hooks;
  const options = { maxPending, maxResultsBytes, encodeJobCall, logger, ...listeners };
  if (url.startsWith(SQLITE)) {
    const { openSqliteStore } = await import("./store/sqlite/sqlite-store.ts");
    return openSqliteStore({ ...options, path: url.slice(SQLITE.length) });
  }
  const { kindOfStore } = await import("./load-parts.ts");
  return kindOfStore(url).open({ ...options, url, parts, signal, connectTimeoutMs });
}

/**
 * Opens the store and closes it, without waiting for a server. Does not create a missing file, and only checks its folder.
 * @throws Error when it cannot be opened
 */
export async function tryStore(store: StoreConfig, logger: Logger): Promise<void> {
  if (store.url.startsWith(SQLITE)) {
    const { isNewFile, obstacleAt } = await import("./store/sqlite/open-database.ts");
    const path = store.url.slice(SQLITE.length);
    if (isNewFile(path)) {
      const obstacle = obstacleAt(path);
      if (obstacle !== undefined) throw new Error(obstacle);
      return;
    }
  }
  const opened = await openStore(store, logger, { connectTimeoutMs: 0 });
  await opened.close();
}

/** Opens the store for reading, even while another process serves it. @throws Error when there is no store */
export async function inspectStore({ url, parts = new Map() }: AnyPlace): Promise<StoreInspection> {
  if (url.startsWith(SQLITE)) {
    const { inspectSqlite } = await import("./store/sqlite/inspect.ts");
    return inspectSqlite(url.slice(SQLITE.length));
  }
  const { kindOfStore } = await import("./load-parts.ts");
  return kindOfStore(url).inspect({ url, parts });
}
