import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { OpenStoreUnderTest } from "../../../store/contract/given.ts";
import { encodeTestCall } from "../../../store/store-fixtures.ts";
import { nearbyReplica, openMemoryStore } from "./open-memory-store.ts";
import { MemoryPostgres } from "./server.ts";

/** Opens the Postgres store on a new server in memory. */
export const openInMemory: OpenStoreUnderTest = async (options) => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-memory-"));
  const server = new MemoryPostgres(join(folder, "rows.db"), true);
  const open = () => openMemoryStore(nearbyReplica(server), { encodeJobCall: encodeTestCall, ...options });
  let store = await open();
  return {
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
      server.close();
      await rm(folder, { recursive: true });
    },
  };
};
