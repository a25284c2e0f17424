import type { Part } from "../../part.ts";

/** The store that several gateway processes share: a Postgres database. */
export const part: Part = {
  store: {
    schemes: ["postgres", "postgresql"],
    async open(options) {
      const { openPostgresStore } = await import("./postgres-store.ts");
      return openPostgresStore(options);
    },
    async inspect(address) {
      const { inspectPostgres } = await import("./inspect.ts");
      return inspectPostgres(address);
    },
  },
};
