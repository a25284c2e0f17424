import { expect, test } from "vitest";
import { startPostgres } from "../../../helpers/postgres.ts";
import { startBeforeAll } from "../../../helpers/start-before-all.ts";
import { testFolder } from "../../../helpers/test-folder.ts";
import { TABLES } from "../../../store/differential/tables.ts";
import {
  expectRefusal,
  LACKS_TABLES,
  otherParts,
  UNRELEASED_VERSIONS,
  unreleased,
} from "../../../store/refused-store.ts";
import { acceptId, claimCalls } from "../../../store/store-fixtures.ts";
import { openReplica } from "../open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

test("Two replicas that start at once on an empty database make every table once, at the first released version", async () => {
  const url = await postgres.createDatabase();
  const replicas = await Promise.all([openReplica(url), openReplica(url)]);
  await Promise.all(replicas.map((replica) => acceptId(replica)));
  const tables = await postgres.query<{ name: string }>(
    url,
    `SELECT tablename COLLATE "C" AS name FROM pg_tables WHERE schemaname = 'jobgate' ORDER BY 1`,
  );
  expect(tables.map(({ name }) => name)).toEqual(
    [...TABLES, "batches", "locks", "pending", "schema_version"].sort(),
  );
  expect(await postgres.query(url, "SELECT version FROM jobgate.schema_version")).toEqual([{ version: 101 }]);
  await Promise.all(replicas.map((replica) => replica.close()));
});

test("A database of an unreleased jobgate is refused by every command, and stays as it is", async () => {
  const url = await postgres.createDatabase();
  const store = await openReplica(url);
  await acceptId(store);
  await store.close();
  const folder = await testFolder();
  for (const version of UNRELEASED_VERSIONS) {
    await postgres.query(url, `UPDATE jobgate.schema_version SET version = ${version}`);
    await expectRefusal(url, unreleased(version), folder);
  }
  const state =
    "SELECT version, (SELECT count(*)::int FROM jobgate.job_calls) AS calls FROM jobgate.schema_version";
  expect(await postgres.query(url, state)).toEqual([{ version: UNRELEASED_VERSIONS.at(-1), calls: 1 }]);
});

test("A database that lacks tables of a part is refused by every command", async () => {
  const url = await postgres.createDatabase();
  await (await openReplica(url)).close();
  await postgres.query(url, "DROP TABLE jobgate.channel_deposits, jobgate.channel_refunds");
  await expectRefusal(url, LACKS_TABLES, await testFolder());
});

test("A database with rows of a part that the build lacks is refused by every command, until they are deleted", async () => {
  const url = await postgres.createDatabase();
  const store = await openReplica(url);
  await acceptId(store);
  await store.close();
  await postgres.query(url, `CREATE TABLE jobgate.loans (id int); CREATE TABLE jobgate.unused (id int)`);
  await postgres.query(url, "INSERT INTO jobgate.loans VALUES (1)");
  await expectRefusal(url, otherParts("jobgate.loans"), await testFolder());

  await postgres.query(url, "DELETE FROM jobgate.loans");
  const again = await openReplica(url);
  expect(await claimCalls(again)).toHaveLength(1);
  await again.close();
});
