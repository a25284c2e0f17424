import { afterEach, expect, test, vi } from "vitest";
import { SearchIndexer } from "../../../src/parts/search/indexer.ts";
import type { SearchIndex } from "../../../src/parts/search/store/index-contract.ts";
import { startLog } from "../../helpers/log.ts";

afterEach(() => vi.useRealTimers());

test("After a slow step, the next step begins within seconds, so that new entries are found", async () => {
  vi.useFakeTimers({ toFake: ["performance", "setTimeout", "clearTimeout"] });
  const start = { at: 0, entry: 0 };
  let readings = 0;
  const index: SearchIndex = {
    searchPositions: async () => ({ calls: start, settled: start, refused: start }),
    async listUnindexed() {
      // The time that the first step takes.
      if (readings++ === 0) vi.advanceTimersByTime(60_000);
      return { terms: [], heads: [], end: undefined, hasMore: true };
    },
    addSearchTerms: async () => undefined,
    findForgotten: async () => ({ isAnyGone: false, next: undefined }),
    forgetSearchTerms: async () => undefined,
    search: () => Promise.reject(new Error("not searched here")),
  };
  const store = { isShared: false } as ConstructorParameters<typeof SearchIndexer>[0]["store"];
  const indexer = new SearchIndexer({ index, store, logger: startLog("error").logger });
  await indexer.start();
  await vi.advanceTimersByTimeAsync(0);
  const ofFirstStep = readings;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(readings).toBeGreaterThan(ofFirstStep);
  await indexer.stop();
});
