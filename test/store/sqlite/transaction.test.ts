import { join } from "node:path";
import { expect, test } from "vitest";
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import { openConnection } from "../../../src/store/sqlite/connection.ts";
import { COMMIT_NUMBER_PRAGMA, newSeenCommit } from "../../../src/store/sqlite/database-header.ts";
import { type Database, openDriver } from "../../../src/store/sqlite/driver.ts";
import { runBatch, type TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { claimRequest, START_MS } from "../store-fixtures.ts";

/** Runs a batch on a database whose commits fail. */
function runWithFailingCommit(reason: string, clockStepMs: number): unknown {
  const executed: string[] = [];
  const database = {
    exec(sql: string) {
      executed.push(sql);
      if (sql === "COMMIT") throw new Error(reason);
    },
  } as Database;
  const batch = [{ name: "probe", now: 0, input: [], clockStepMs }] as unknown as TimedOperation[];
  try {
    return runBatch(batch, {
      database,
      operations: { probe: () => undefined } as never,
      mode: "IMMEDIATE",
      onRollback: () => undefined,
    });
  } catch (error) {
    expect(executed).toEqual(["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"]);
    return error;
  }
}

test.each([0, 5])(
  "A batch whose commit the disk failed may be there after a restart (clock step %i ms)",
  (clockStepMs) => {
    const error = runWithFailingCommit("disk I/O error", clockStepMs);
    expect(error).toBeInstanceOf(UnknownOutcomeError);
    expect((error as Error).message).toContain("disk I/O error");
  },
);

test.each([0, 5])(
  "Nothing is there of a batch that the full disk had no place for (clock step %i ms)",
  (clockStepMs) => {
    const error = runWithFailingCommit("database or disk is full", clockStepMs);
    expect(error).not.toBeInstanceOf(UnknownOutcomeError);
    expect(error).toMatchObject({ message: "database or disk is full" });
  },
);

test("A batch writes the next commit number if it changes anything, and nothing otherwise", async () => {
  const path = join(await testFolder(), "jobgate.db");
  const seenCommit = newSeenCommit();
  const role = { role: "writer", path, watch: [], seenCommit, isNew: true, lastCallId: 0 } as const;
  const writer = openConnection({ ...role, maxPending: 1, now: START_MS }, () => undefined);
  const file = openDriver(path);
  const commitNumber = file.prepare<{ n: number }>(
    `SELECT ${COMMIT_NUMBER_PRAGMA} AS n FROM pragma_${COMMIT_NUMBER_PRAGMA}`,
  );
  const write: TimedOperation = { name: "probe", now: START_MS, input: [] };
  const look: TimedOperation = { name: "claim", now: START_MS, input: [claimRequest({ limit: 1 })] };
  try {
    const seen = [[], [write], [look], [write, look], [look]].map((batch) => {
      if (batch.length > 0) writer.run(batch);
      return commitNumber.get([])?.n;
    });
    expect(seen).toEqual([0, 1, 1, 2, 2]);
  } finally {
    file.close();
    writer.close();
  }
});
