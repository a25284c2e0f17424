import type { Part } from "../../part.ts";
import { SEARCH } from "./store/module.ts";

/** The operator's search, and the index that it reads. */
export const part: Part = {
  async load() {
    const { SearchIndexer } = await import("./indexer.ts");
    return (host) => {
      const { store, logger } = host;
      const index = store.of(SEARCH);
      const indexer = new SearchIndexer({ index, store, logger });
      return {
        operator: {
          loadApi: async () => (await import("./operator.ts")).searchOperation({ index, host }),
        },
        start: () => indexer.start(),
        stop: () => indexer.stop(),
      };
    };
  },
};
