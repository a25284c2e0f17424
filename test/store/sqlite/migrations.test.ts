import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import type { JobCall } from "../../../src/core/job-call.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import { MIGRATIONS } from "../../../src/store/sqlite/schema.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { testFolder } from "../../helpers/test-folder.ts";
import {
  deadLetterRow,
  expectFirstMovement,
  finishedRow,
  redeemedQuoteRow,
  SETTLED_IN_FIRST_VERSION,
  settledRows,
} from "../first-version-rows.ts";
import { NETWORK, newTransaction, paidCall, paidId, paymentIntent } from "../store-fixtures.ts";

let folder: string;
beforeEach(async () => {
  folder = await testFolder();
});

test.each(MIGRATIONS.slice(1).map((_, index) => index + 1))(
  "A file of schema version %i is brought up to date, and what it holds is kept",
  async (version) => {
    const path = join(folder, "jobgate.db");
    const has = (part: string) => MIGRATIONS.slice(0, version).some((sql) => sql.includes(part));
    const inserts = [...settledRows(""), deadLetterRow("")];
    if (has("TABLE finished_calls")) inserts.push(finishedRow(""));
    if (has("TO dead_group")) inserts.push("UPDATE job_calls SET dead_group = 'webhook 1 30 no ink'");
    else if (has("short_reason")) inserts.push("UPDATE job_calls SET short_reason = dead_reason");
    fillOldFile(path, version, inserts);
    const store = await openStore(path);
    const { callId, key } = SETTLED_IN_FIRST_VERSION;
    const kept = await store.findPayment(key);
    expect(kept).toMatchObject({ state: "settled", callId });
    expect(kept).not.toHaveProperty("facilitator");
    expect(kept).not.toHaveProperty("onFailure");
    expect(kept).not.toHaveProperty("callbackUrl");
    await store.useCallbackEndpoints([{ url: "https://ops.example/", events: ["payment.settled"] }]);
    expect(await store.findCall(callId)).toMatchObject({ state: "succeeded", payment: key });
    const listed = { callId, state: "done", jobId: 0n, attempts: 1, payment: { amount: "1" } };
    expect((await store.listCalls({ limit: 10, origin: "x402", jobId: 0n })).items).toMatchObject([listed]);
    expect(await store.findCallDetails(callId)).toMatchObject({ ...listed, steps: [] });
    const group = { origin: "webhook", jobId: 30n, reason: "no ink", count: 1, oldestDeadAt: 2 };
    expect((await store.listDeadLetterGroups(10)).groups).toMatchObject([group]);
    expect(await store.keepSecret("a", "secret")).toBe("secret");
    const revenue = await store.revenue({ since: 0, bucketMs: 3_600_000 });
    expect(revenue[0]).toMatchObject({ from: 0, symbol: "USDC", amount: 1n, payments: 1 });
    await expectFirstMovement(store);
    await paidId(store, 2);
    expect(await store.listCallbacks({ limit: 9 })).toMatchObject([
      { event: "payment.settled", state: "pending" },
    ]);
    expect(await store.findPayment(paymentIntent(2).key)).toMatchObject({ state: "settled" });
    const identified = paymentIntent(4, { paymentId: "order_0123456789" });
    await store.beginPayment(identified, paidCall());
    const identifier = { payer: identified.key.payer, id: "order_0123456789" };
    expect(await store.findPaymentByIdentifier(identifier)).toMatchObject(identified);
    await store.beginPayment(paymentIntent(3), paidCall());
    await store.failPayment(paymentIntent(3).key, "{}", "not paid");
    const closing = { as: "paid", by: "ada", note: "it was" } as const;
    expect(await store.closePayment(paymentIntent(3).key, closing)).toMatchObject({ kind: "closed" });
    const queued = await store.queueTransaction(newTransaction(1));
    expect(await store.findTransactions(NETWORK, [queued.reference])).toEqual([queued]);
    await store.prune({ kind: "results", ageMs: 1, after: 0 });
    expect(await store.findCall(callId)).toMatchObject({ state: "expired", payment: key });
    await store.close();
  },
);

test("A quote that was paid before payments told whether they redeem one stays paid", async () => {
  const path = join(folder, "jobgate.db");
  const version = MIGRATIONS.findIndex((migration) => migration.includes("redeems_quote"));
  fillOldFile(path, version, [...settledRows(""), redeemedQuoteRow("")]);
  const store = await openStore(path);
  expect(await store.findQuote("receipt")).toMatchObject({ isPaid: true });
  const again = paymentIntent(2, { receipt: "receipt", redeemsQuote: true });
  expect(await store.beginPayment(again, paidCall())).toEqual({ kind: "quote_paid" });
  await store.close();
});

function fillOldFile(path: string, version: number, inserts: readonly string[]): void {
  const old = openDriver(path);
  for (const statements of [...MIGRATIONS.slice(0, version), ...inserts]) old.exec(statements);
  old.exec(`PRAGMA user_version = ${version}`);
  old.close();
}

function openStore(path: string): Promise<Store> {
  return openSqliteStore({
    path,
    maxPending: 1000,
    threads: false,
    encodeJobCall: ({ body }: JobCall) => body,
  });
}
