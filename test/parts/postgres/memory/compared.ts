import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Compared } from "../../../store/differential/side.ts";
import { checkFile } from "../../../store/sqlite/compared.ts";
import { encodeTestCall } from "../../../store/store-fixtures.ts";
import { nearbyReplica, openMemoryStore } from "./open-memory-store.ts";
import { MemoryPostgres } from "./server.ts";

/** The Postgres store on a server in memory. */
export const MEMORY: Compared = {
  name: "Postgres in memory",
  atOnce: true,
  async open(options) {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-memory-"));
    const path = join(folder, "rows.db");
    const server = new MemoryPostgres(path, true);
    const store = await openMemoryStore(nearbyReplica(server), { encodeJobCall: encodeTestCall, ...options });
    return {
      store,
      rows: async (table) => server.rows(table),
      check: () => checkFile(path),
      async dispose() {
        await store.close();
        server.close();
        await rm(folder, { recursive: true });
      },
    };
  },
};
