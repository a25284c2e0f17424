import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { DEFAULT_TIMEOUTS } from "../../../../src/store/postgres/connection/connect.ts";
import { startPostgres } from "../../../helpers/postgres.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { acceptId } from "../../store-fixtures.ts";
import { openReplica } from "../open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

test("Slow lookups do not make the store unwritable while writes work", async () => {
  const url = await postgres.createDatabase();
  const store = await openReplica(url, {
    poolSize: 4,
    timeouts: { ...DEFAULT_TIMEOUTS, connectMs: 500, lockMs: 500 },
  });
  // A table that lookups read, and that accepts do not touch.
  const other = await postgres.hold(url, "LOCK TABLE jobgate.results IN ACCESS EXCLUSIVE MODE");
  try {
    let failed = 0;
    const lookups = Array.from({ length: 3 }, async () => {
      for (const until = performance.now() + 3_000; performance.now() < until; ) {
        await store.totals().catch(() => {
          failed += 1;
        });
      }
    });
    for (let look = 0; look < 30; look += 1) {
      await acceptId(store);
      expect(store.status()).toMatchObject({ writable: true, full: false });
      await sleep(100);
    }
    await Promise.all(lookups);
    expect(failed).toBeGreaterThan(3);
  } finally {
    await other.commit();
    await store.close();
  }
});
