import { expect, test } from "vitest";
import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import { startPostgres } from "../../../helpers/postgres.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { until } from "../../../helpers/until.ts";
import { acceptId } from "../../../store/store-fixtures.ts";
import { openReplica } from "../open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

test("Slow lookups do not make the store unwritable while writes work", async () => {
  const url = await postgres.createDatabase();
  const store = await openReplica(url, {
    poolSize: 4,
    // A lookup keeps its connection for longer than the others wait for one.
    timeouts: { ...DEFAULT_TIMEOUTS, connectMs: 2_000, lockMs: 6_000 },
  });
  // A table that lookups read, and that accepts do not touch.
  const other = await postgres.hold(url, "LOCK TABLE jobgate.results IN ACCESS EXCLUSIVE MODE");
  try {
    let failed = 0;
    const lookups = Array.from({ length: 3 }, async () => {
      while (failed < 6) {
        await store.totals().catch(() => {
          failed += 1;
        });
      }
    });
    await until(async () => {
      await acceptId(store);
      expect(store.status()).toMatchObject({ writable: true, full: false });
      return failed >= 6;
    });
    await Promise.all(lookups);
  } finally {
    await other.commit();
    await store.close();
  }
});
