import { expect, test } from "vitest";
import { inspectStore } from "../../../src/open-store.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { claimOne, paidId } from "../../store/store-fixtures.ts";
import { openReplica } from "./open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

test("A shared store is counted and checked; a copy of it is left to pg_dump", async () => {
  const url = await postgres.createDatabase();
  await expect(inspectStore({ url })).rejects.toThrow("it has no schema jobgate");
  const store = await openReplica(url);
  await paidId(store, 1);
  await store.ack(await claimOne(store));
  await paidId(store, 2);
  const inspection = await inspectStore({ url });
  const { kind, bytes, rows } = await inspection.info();
  expect({ kind, bytes }).toEqual({ kind: "Postgres", bytes: expect.any(Number) });
  expect(rows).toContainEqual({ name: "payments", count: 2, oldest: expect.any(Number) });
  expect(await inspection.check()).toEqual([]);
  await postgres.query(url, "DELETE FROM jobgate.results");
  expect(await inspection.check()).toEqual([
    "1 paid calls are missing in the journal, or too many",
    "1 ended payments or calls are counted wrongly",
  ]);
  await expect(inspection.backup("copy.db")).rejects.toThrow("pg_dump");
  await Promise.all([inspection.close(), store.close()]);
});
