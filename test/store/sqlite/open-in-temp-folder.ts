import type { Clock } from "../../../src/core/clock.ts";
import type { BatchListener } from "../../../src/store/store.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import type { StoreUnderTest } from "../contract/given.ts";
import { encodeTestCall } from "../store-fixtures.ts";

/** A store in a new folder, which encodes a JobCall as its head and body. */
export async function openInTempFolder(options: {
  maxPending: number;
  clock: Clock;
  onBatch?: BatchListener;
}): Promise<StoreUnderTest & { readonly path: string }> {
  const opened = await openTestStore({ encodeJobCall: encodeTestCall, ...options });
  let { store } = opened;
  return {
    path: opened.path,
    get store() {
      return store;
    },
    async reopen() {
      await store.close();
      store = await opened.openAgain();
      return store;
    },
    async dispose() {
      await store.close();
      await opened.stop();
    },
  };
}
