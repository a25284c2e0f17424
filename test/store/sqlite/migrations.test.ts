import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { JobCall } from "../../../src/core/job-call.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { MIGRATIONS } from "../../../src/store/sqlite/schema.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { SETTLED_IN_FIRST_VERSION, settledRows } from "../first-version-rows.ts";
import { paidId, paymentIntent } from "../store-fixtures.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-migrations-"));
});
afterEach(() => rm(folder, { recursive: true }));

test.each(MIGRATIONS.slice(1).map((_, index) => index + 1))(
  "A file of schema version %i is brought up to date, and what it holds is kept",
  async (version) => {
    const path = join(folder, "jobgate.db");
    const old = openDriver(path);
    for (const migration of MIGRATIONS.slice(0, version)) old.exec(migration);
    for (const insert of settledRows("")) old.exec(insert);
    old.exec(`PRAGMA user_version = ${version}`);
    old.close();

    const store = await openSqliteStore({
      path,
      maxPending: 1000,
      threads: false,
      encodeJobCall: ({ body }: JobCall) => body,
    });
    const { callId, key } = SETTLED_IN_FIRST_VERSION;
    expect(await store.findPayment(key)).toMatchObject({ state: "settled", callId });
    expect(await store.findCall(callId)).toMatchObject({ state: "succeeded", payment: key });
    expect(await store.keepSecret("a", "secret")).toBe("secret");
    await paidId(store, 2);
    expect(await store.findPayment(paymentIntent(2).key)).toMatchObject({ state: "settled" });
    await store.close();
  },
);
