import type { Logger } from "pino";
import type { StoreConfig } from "./config/config.ts";
import { encodeJobCall } from "./delivery/job-call-codec.ts";
import type { StoreInspection } from "./store/contract/inspection.ts";
import type { StoreOptions } from "./store/create-store.ts";
import type { Store } from "./store/store.ts";

const SQLITE = "sqlite:";

/**
 * Opens the store that the configuration names: `sqlite:PATH` or `postgres://…`. The only place that knows the kinds of
 * store; the code of a kind that is not used is not loaded.
 */
export async function openStore(
  { url, maxPending, ...connection }: Omit<StoreConfig, "retention">,
  logger: Logger,
  hooks: Pick<StoreOptions, "onBatch" | "onCommitted" | "tracing"> & {
    /** Ends the wait for a server that is not reachable yet. */
    readonly signal?: AbortSignal | undefined;
  } = {},
): Promise<Store> {
  const { signal, ...listeners } = hooks;
  const options = { maxPending, encodeJobCall, logger, ...listeners };
  if (url.startsWith(SQLITE)) {
    const { openSqliteStore } = await import("./store/sqlite/sqlite-store.ts");
    return openSqliteStore({ ...options, path: url.slice(SQLITE.length) });
  }
  const { openPostgresStore } = await import("./store/postgres/postgres-store.ts");
  return openPostgresStore({ ...options, signal, url, ...connection });
}

/** Looks at the store beside the process that serves it. @throws Error when there is none */
export async function inspectStore({
  url,
  ...address
}: Pick<StoreConfig, "url" | "tls" | "ca">): Promise<StoreInspection> {
  if (url.startsWith(SQLITE)) {
    const { inspectSqlite } = await import("./store/sqlite/inspect.ts");
    return inspectSqlite(url.slice(SQLITE.length));
  }
  const { inspectPostgres } = await import("./store/postgres/inspect.ts");
  return inspectPostgres({ url, ...address });
}
