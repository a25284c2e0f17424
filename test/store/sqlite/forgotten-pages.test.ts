import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../helpers/until.ts";
import { acceptId, claimOne, paidId } from "../store-fixtures.ts";
import { openInTempFolder } from "./open-in-temp-folder.ts";

const CHUNKS = 5;
/** Time of a read that keeps the log: longer than the store takes to look at it. */
const READS_MS = 1_500;
const SIZES: [string, number][] = [
  ["small", 40],
  ["of many pages", 100_000],
  ["in chunks", CHUNKS * 262_144],
];

async function openStore() {
  const opened = await openInTempFolder({ maxPending: 100, clock: systemClock });
  onTestFinished(() => opened.dispose());
  return opened;
}

let payments = 0;

/** Finishes a new call with a result. */
async function finish(store: Store, bytes: Buffer): Promise<number> {
  const callId = await paidId(store, ++payments);
  const lease = await claimOne(store);
  const contentType = "a/b";
  if (bytes.length < 1_000_000) await store.ack(lease, { body: bytes, contentType });
  else {
    for (let place = 0; place < CHUNKS; place++) {
      const chunk = bytes.subarray(place * 262_144, (place + 1) * 262_144);
      await store.appendResult(lease, place, chunk);
    }
    await store.ack(lease, { body: Buffer.alloc(0), contentType, storedBytes: bytes.length });
  }
  return callId;
}

async function forget(store: Store, callId: number): Promise<void> {
  while (await store.forgetResult(callId));
}

/** A text that repeats in each page of a result, and nowhere else. */
const newMark = () => randomBytes(32);

/** Returns true if the database or its log has a mark. */
const isFound = (path: string, mark: Buffer): boolean =>
  [path, `${path}-wal`].some((file) => existsSync(file) && readFileSync(file).includes(mark));

test.each(SIZES)(
  "The bytes of a result (%s) leave the files soon after it was forgotten",
  async (_, size) => {
    const { store, path } = await openStore();
    const kept = await finish(store, Buffer.from("a result that stays"));
    const mark = newMark();
    const callId = await finish(store, Buffer.alloc(size, mark));
    await finish(store, Buffer.from("another result that stays"));
    expect(isFound(path, mark)).toBe(true);
    await forget(store, callId);
    await until(() => !isFound(path, mark) || undefined);
    expect(await store.findResult(kept)).toMatchObject({ size: 19 });
    expect(isFound(path, Buffer.from("a result that stays"))).toBe(true);
  },
);

test("They leave the files also while the store is in use all the time, once a long read of them ends", async () => {
  const { store, path } = await openStore();
  const mark = newMark();
  const callId = await finish(store, Buffer.alloc(CHUNKS * 262_144, mark));
  const reader = openDriver(path);
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM results").get([]);
  await forget(store, callId);
  const use = setInterval(() => void acceptId(store), 200);
  onTestFinished(() => clearInterval(use));
  await sleep(READS_MS);
  expect(isFound(path, mark)).toBe(true);
  reader.exec("COMMIT");
  reader.close();
  await until(() => !isFound(path, mark) || undefined);
});
