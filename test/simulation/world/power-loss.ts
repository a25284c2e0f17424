import { rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { inspectSqlite } from "../../../src/store/sqlite/inspect.ts";
import type { Disk } from "./disk.ts";
import type { Laws } from "./laws.ts";
import type { Simulation } from "./simulation.ts";

/**
 * Checks a disk after a power loss, before the gateway starts on it: `jobgate store check` finds nothing, and everything
 * that anybody has heard of is there. Node's own SQLite reads copies of the files.
 * @param folder for the copies
 */
export async function checkDisk(
  { simulation, disk, laws }: { simulation: Simulation; disk: Disk; laws: Laws },
  folder: string,
): Promise<void> {
  const copies = [...disk.files].map(([path, bytes]) => [join(folder, basename(path)), bytes] as const);
  for (const [path, bytes] of copies) writeFileSync(path, bytes);
  const path = join(folder, "jobgate.db");
  try {
    const inspection = inspectSqlite(path);
    const problems = await inspection.check().finally(() => inspection.close());
    for (const problem of problems) simulation.break(`the store is damaged: ${problem}`);
    for (const loss of lossesIn(path, laws)) simulation.break(loss);
  } catch (error) {
    simulation.break(`the store cannot be read: ${String(error)}`);
  } finally {
    for (const end of ["", "-wal", "-shm", "-journal"]) rmSync(path + end, { force: true });
  }
}

function lossesIn(path: string, { payments, finished }: Laws): string[] {
  const database = openDriver(path);
  try {
    const rows = database
      .prepare<{ id: number; isOpen: number }>(
        `SELECT call_id AS id, state <> 'dead' AS isOpen FROM job_calls
         UNION ALL SELECT call_id, 0 FROM finished_calls`,
      )
      .all([]);
    const stored = new Set(rows.map(({ id }) => id));
    const lost = payments.filter(({ bought }) => bought !== undefined && !stored.has(bought.callId));
    const again = rows.filter(({ id, isOpen }) => isOpen === 1 && finished.has(id));
    return [
      ...lost.map(
        ({ client, bought }) => `JobCall ${bought?.callId} of ${client} was answered 202, and is lost`,
      ),
      ...again.map(({ id }) => `the end of JobCall ${id} was acknowledged, and is lost`),
    ];
  } finally {
    database.close();
  }
}
