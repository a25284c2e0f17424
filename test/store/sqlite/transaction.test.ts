import { expect, test } from "vitest";
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import type { Database } from "../../../src/store/sqlite/driver.ts";
import { runBatch, type TimedOperation } from "../../../src/store/sqlite/transaction.ts";

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
