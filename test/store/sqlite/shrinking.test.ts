import { statSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { type Connection, openConnection } from "../../../src/store/sqlite/connection.ts";
import { newSeenCommit } from "../../../src/store/sqlite/database-header.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { START_MS } from "../store-fixtures.ts";

let path: string;
beforeEach(async () => {
  path = join(await testFolder(), "jobgate.db");
});

const operation = (name: string, ...input: unknown[]) =>
  ({ name, now: START_MS, input }) as unknown as TimedOperation;
const accepts = (count: number) =>
  Array.from({ length: count }, () =>
    operation("accept", {
      origin: "webhook",
      jobId: "1",
      serviceId: "1",
      encoded: new Uint8Array(20_000),
      headBytes: 10_000,
    }),
  );

function openWriter(onLost = (reason: string): void => expect.fail(reason)): Connection {
  return openConnection(
    {
      role: "writer",
      path,
      watch: [path],
      seenCommit: newSeenCommit(),
      isNew: true,
      lastCallId: 0,
      maxPending: 10_000,
      now: Date.now(),
    },
    onLost,
  );
}

function checkpoint(): void {
  const other = openDriver(path);
  other.prepare("PRAGMA wal_checkpoint(PASSIVE)").all([]);
  other.close();
}

/** Fills the store, and finishes and prunes everything again. */
function fillAndPrune(writer: Connection): void {
  writer.run(accepts(200));
  const [claimed] = writer.run([
    operation("claim", { limit: 1_000, jobIds: [], leaseMs: 1_000, maxAttempts: 1, subscriber: "test" }),
  ]);
  const { calls } = (claimed as { result: { calls: readonly object[] } }).result;
  writer.run(calls.map((call) => operation("ack", call)));
  checkpoint();
  writer.run([operation("prune", { kind: "calls", ageMs: -1, after: 0 })]);
}

function shrinkAll(writer: Connection): void {
  for (let more = true; more; ) {
    const [outcome] = writer.run([operation("shrink")]);
    more = (outcome as { result: boolean }).result;
  }
}

test("The file gets smaller once calls were pruned", () => {
  const writer = openWriter();
  fillAndPrune(writer);
  const full = statSync(path).size;
  shrinkAll(writer);
  checkpoint();
  expect(statSync(path).size).toBeLessThan(full / 2);
  writer.close();
});

test("A file that shrinks while it is written is not taken for a file that was truncated", () => {
  const lost: string[] = [];
  const writer = openWriter((reason) => lost.push(reason));
  fillAndPrune(writer);
  shrinkAll(writer);
  // The log is copied, and the file cut, while a batch runs that makes the database longer.
  const [first] = accepts(1);
  const cutting = {
    ...first,
    get input() {
      checkpoint();
      return first?.input;
    },
  } as TimedOperation;
  writer.run([...accepts(50), cutting]);
  writer.run(accepts(1));
  expect(lost).toEqual([]);
  writer.close();
});

test("A file that another tool wrote, which cannot give pages back, is left as it is", () => {
  const served = openWriter();
  served.close();
  const file = openDriver(path);
  const dumped = file
    .prepare<{ sql: string }>(
      "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND name <> 'sqlite_sequence'",
    )
    .all([]);
  file.close();
  path = `${path}-recovered`;
  const recovered = openDriver(path);
  for (const { sql } of dumped) recovered.exec(sql);
  recovered.exec("INSERT INTO probe VALUES (0); PRAGMA user_version = 101");
  expect(recovered.prepare("PRAGMA auto_vacuum").get([])).toMatchObject({ auto_vacuum: 0 });
  recovered.close();
  const writer = openWriter();
  fillAndPrune(writer);
  expect(writer.run([operation("shrink")])).toMatchObject([{ result: false }]);
  writer.close();
});
