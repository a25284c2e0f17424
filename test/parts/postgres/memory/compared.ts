import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Compared } from "../../../store/differential/side.ts";
import { checkFile } from "../../../store/sqlite/compared.ts";
import { encodeTestCall } from "../../../store/store-fixtures.ts";
import { openMemoryStore } from "./open-memory-store.ts";
import { MemoryPostgres } from "./server.ts";

/** The Postgres store on a server in memory. */
export const MEMORY: Compared = {
  name: "Postgres in memory",
  atOnce: true,
  async open(options) {
    const folder = await mkdtemp(join(tmpdir(), "jobgate-memory-"));
    const path = join(folder, "rows.db");
    const server = new MemoryPostgres(path, true);
    const replica = {
      ...{ server, onRan: undefined },
      openChannel: () => ({ announce: () => undefined, close: () => Promise.resolve() }),
      wireOf: () => ({
        connect: () => Promise.resolve(),
        toServer: (_statement: string, arrive: () => void) => arrive(),
        toClient: (arrive: () => void) => arrive(),
      }),
    };
    const store = await openMemoryStore(replica, { encodeJobCall: encodeTestCall, ...options });
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
