import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import { paidId } from "../store-fixtures.ts";

const PAYMENTS = 8_000;

let folder: string;
let store: Store;
let callId: number;
beforeEach(async () => {
  folder = await testFolder();
  const path = join(folder, "jobgate.db");
  store = await openSqliteStore({
    path,
    threads: true,
    maxPending: 10,
    encodeJobCall: ({ body }) => body,
  });
  callId = await paidId(store, 1);
  const other = openDriver(path);
  const columns = other
    .prepare<{ name: string }>("SELECT name FROM pragma_table_info('payments')")
    .all([])
    .map(({ name }) => name);
  const values = columns.map((name) => {
    if (name === "nonce" || name === "fingerprint" || name === "receipt") return `${name} || i`;
    return name === "call_id" ? "call_id + i" : name;
  });
  other.exec(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${PAYMENTS})
     INSERT INTO payments (${columns.join(", ")}) SELECT ${values.join(", ")} FROM payments, n`,
  );
  other.close();
});
afterEach(() => store.close());

test("A client's lookups do not wait for the operator's lookups", async () => {
  const answered: string[] = [];
  const note = (name: string) => () => void answered.push(name);
  // Opens the operator's connection.
  await store.listPayments({ limit: 1 });
  await Promise.all([
    ...Array.from({ length: 5 }, () => store.revenue({ since: 0, bucketMs: 1000 }).then(note("revenue"))),
    store.totals().then(note("totals")),
    store.findCall(callId).then(note("findCall")),
    store.findResult(callId).then(note("findResult")),
  ]);
  expect(answered.slice(0, 2)).toEqual(["findCall", "findResult"]);
});
