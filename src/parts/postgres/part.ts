import type { Part } from "../../part.ts";
import { connectionTable } from "./config.ts";

/** The store that several gateway processes share: a Postgres database. */
export const part: Part = {
  table: connectionTable,
  store: {
    schemes: ["postgres", "postgresql"],
    async open({ parts, connectTimeoutMs, ...options }) {
      const { openPostgresStore } = await import("./postgres-store.ts");
      const connection = connectionTable.in({ parts });
      return openPostgresStore({
        ...options,
        ...connection,
        connectTimeoutMs: connectTimeoutMs ?? connection?.connectTimeoutMs,
      });
    },
    async inspect({ url, parts }) {
      const { inspectPostgres } = await import("./inspect.ts");
      return inspectPostgres({ ...connectionTable.in({ parts }), url });
    },
  },
};
