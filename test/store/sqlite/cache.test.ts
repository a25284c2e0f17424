import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openDatabase } from "../../../src/store/sqlite/open-database.ts";

const MIB = 1024 * 1024;
const ROWS_A_COMMIT = 1_000;

it("a connection takes less than 16 MiB while its file grows by 48 MiB", () => {
  const folder = mkdtempSync(join(tmpdir(), "jobgate-cache-"));
  const database = openDatabase(join(folder, "jobgate.db"), { isNew: true });
  try {
    database.exec("CREATE TABLE filling (body BLOB)");
    const fill = database.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS_A_COMMIT})
       INSERT INTO filling SELECT zeroblob(1024) FROM n`,
    );
    fill.run([]);
    const before = process.memoryUsage.rss();
    for (let rows = 0; rows < (48 * MIB) / 1024; rows += ROWS_A_COMMIT) fill.run([]);
    expect(process.memoryUsage.rss() - before).toBeLessThan(16 * MIB);
  } finally {
    database.close();
    rmSync(folder, { recursive: true });
  }
});
