import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../src/core/clock.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { BatchListener } from "../../../src/store/store.ts";
import type { StoreUnderTest } from "../contract/given.ts";

/** A store in a new folder, whose encoder gives the JobCall's body. */
export async function openInTempFolder(options: {
  maxPending: number;
  clock: Clock;
  onBatch?: BatchListener;
}): Promise<StoreUnderTest & { readonly path: string }> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-store-"));
  const path = join(folder, "jobgate.db");
  const open = () => openSqliteStore({ path, encodeJobCall: ({ body }) => body, ...options });
  let store = await open();
  return {
    path,
    get store() {
      return store;
    },
    async reopen() {
      await store.close();
      store = await open();
      return store;
    },
    async dispose() {
      await store.close();
      await rm(folder, { recursive: true });
    },
  };
}
