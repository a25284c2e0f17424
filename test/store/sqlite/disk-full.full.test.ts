import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../helpers/until.ts";
import type { StoreUnderTest } from "../contract/given.ts";
import { acceptId, claimCalls, webhookCall } from "../store-fixtures.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

let underTest: StoreUnderTest & { readonly path: string };
beforeEach(async () => {
  underTest = await openInTempFolder({ maxPending: 1_000_000, clock: systemClock });
});
afterEach(async () => {
  limitFileSize("unlimited");
  await underTest.dispose();
});

/** The most that this process can write to one file, as when a disk is full: writes above it fail. */
function limitFileSize(bytes: number | "unlimited"): void {
  execFileSync("prlimit", ["--pid", String(process.pid), `--fsize=${bytes}:unlimited`]);
}

/** Accepts until the store refuses. */
async function acceptUntilRefused(store: Store): Promise<number[]> {
  const ids: number[] = [];
  const body = Buffer.alloc(10_000, "x");
  for (let i = 0; i < 1000; i += 1) {
    try {
      ids.push(await acceptId(store, { body }));
    } catch (error) {
      // A write that failed during a commit leaves its outcome open.
      if (!(error instanceof UnknownOutcomeError)) expect(error).toMatchObject({ code: "store_unavailable" });
      return ids;
    }
  }
  throw new Error("the store never refused");
}

test("A store that cannot write refuses and says why, recovers by itself, and has lost nothing acknowledged", async () => {
  let { store } = underTest;
  const before = [await acceptId(store), await acceptId(store)];
  limitFileSize(statSync(`${underTest.path}-wal`).size + 1_000_000);
  const during = await acceptUntilRefused(store);
  expect(during.length).toBeGreaterThan(0);
  expect(store.status()).toMatchObject({ writable: false, reason: expect.stringMatching(/\S/) });
  // Only space is missing: operations that need none still work.
  expect((await store.totals()).calls.ready).toBe(before.length + during.length);

  limitFileSize("unlimited");
  await until(() => store.status().writable);
  expect(store.status()).toMatchObject({ writable: true, full: false });
  const after = await acceptId(store);

  store = await underTest.reopen();
  const claimed = await claimCalls(store, { limit: 10_000 });
  expect(claimed.map(({ callId }) => callId)).toEqual([...before, ...during, after]);
  expect((await store.accept(webhookCall())).kind).toBe("accepted");
});
