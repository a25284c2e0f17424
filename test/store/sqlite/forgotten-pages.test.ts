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

const CHUNKS = 20;
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

/** Bytes between two samples, of which each page of the database has one, and bytes of a sample. */
const SAMPLED_EVERY = 3_000;
const SAMPLE_BYTES = 30;

/** Returns which of the samples of some bytes stand in the database or its log. */
function found(path: string, bytes: Buffer): number[] {
  const samples = Array.from(
    { length: Math.ceil(bytes.length / SAMPLED_EVERY) },
    (_, i) => i * SAMPLED_EVERY,
  );
  // Looks for all samples at once: for one after the other in megabytes it would take seconds.
  const startingWith = new Map<number, number[]>();
  for (const start of samples) {
    const first = bytes.readUInt16LE(start);
    startingWith.set(first, [...(startingWith.get(first) ?? []), start]);
  }
  const there = new Set<number>();
  for (const file of [path, `${path}-wal`]
    .filter((name) => existsSync(name))
    .map((name) => readFileSync(name)))
    for (let at = 0; at + 1 < file.length; at += 1)
      for (const start of startingWith.get(file.readUInt16LE(at)) ?? []) {
        const sample = bytes.subarray(start, start + SAMPLE_BYTES);
        if (file.subarray(at, at + sample.length).equals(sample)) there.add(start);
      }
  return samples.filter((start) => there.has(start));
}

test.each(SIZES)(
  "The bytes of a result (%s) leave the files soon after it was forgotten",
  async (_, size) => {
    const { store, path } = await openStore();
    const kept = await finish(store, Buffer.from("a result that stays"));
    const bytes = randomBytes(size);
    const callId = await finish(store, bytes);
    await finish(store, Buffer.from("another result that stays"));
    expect(found(path, bytes)).not.toEqual([]);
    await forget(store, callId);
    await until(() => found(path, bytes).length === 0 || undefined);
    expect(await store.findResult(kept)).toMatchObject({ size: 19 });
    expect(found(path, Buffer.from("a result that stays"))).toEqual([0]);
  },
);

test("They leave the files also while the store is in use all the time, once a long read of them ends", async () => {
  const { store, path } = await openStore();
  const bytes = randomBytes(CHUNKS * 262_144);
  const callId = await finish(store, bytes);
  const reader = openDriver(path);
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM results").get([]);
  await forget(store, callId);
  const use = setInterval(() => void acceptId(store), 200);
  onTestFinished(() => clearInterval(use));
  await sleep(READS_MS);
  expect(found(path, bytes)).not.toEqual([]);
  reader.exec("COMMIT");
  reader.close();
  await until(() => found(path, bytes).length === 0 || undefined);
});
