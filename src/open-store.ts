import type { Logger } from "pino";
import type { StoreConfig } from "./config/config.ts";
import { encodeJobCall } from "./delivery/job-call-codec.ts";
import { openSqliteStore } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";

/** Opens the store that the configuration names: `sqlite:PATH`. The only place that knows the kinds of store. */
export async function openStore({ url, maxPending }: StoreConfig, logger: Logger): Promise<Store> {
  if (url.startsWith("sqlite:")) {
    return openSqliteStore({ path: url.slice("sqlite:".length), maxPending, encodeJobCall, logger });
  }
  throw new Error("store.url: expected sqlite:PATH; other stores are not available in this version");
}
