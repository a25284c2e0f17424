import { afterAll, beforeAll, expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/store/postgres/schema.ts";
import { type Postgres, startPostgres } from "../../helpers/postgres.ts";
import { redeemedQuoteRow, SETTLED_IN_FIRST_VERSION, settledRows } from "../first-version-rows.ts";
import { paidCall, paidId, paymentIntent } from "../store-fixtures.ts";
import { openReplica } from "./open-in-database.ts";

let postgres: Postgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

test.each(MIGRATIONS.slice(1).map((_, index) => index + 1))(
  "A database of schema version %i is brought up to date by two replicas at once, and what it holds is kept",
  async (version) => {
    const url = await oldDatabase(version, settledRows("jobgate."));
    const [store, other] = await Promise.all([openReplica(url), openReplica(url)]);
    const { callId, key } = SETTLED_IN_FIRST_VERSION;
    expect(await store.findPayment(key)).toMatchObject({ state: "settled", callId });
    expect(await store.findCall(callId)).toMatchObject({ state: "succeeded", payment: key });
    const secrets = await Promise.all([store.keepSecret("a", "one"), other.keepSecret("a", "two")]);
    expect(secrets[0]).toBe(secrets[1]);
    const revenue = await store.revenue({ since: 0, bucketMs: 3_600_000 });
    expect(revenue[0]).toMatchObject({ from: 0, symbol: "USDC", amount: 1n, payments: 1 });
    await paidId(store, 2);
    expect(await other.findPayment(paymentIntent(2).key)).toMatchObject({ state: "settled" });
    await store.beginPayment(paymentIntent(3), paidCall());
    await store.failPayment(paymentIntent(3).key, "{}", "not paid");
    const closing = { as: "paid", by: "ada", note: "it was" } as const;
    expect(await other.closePayment(paymentIntent(3).key, closing)).toMatchObject({ kind: "closed" });
    await Promise.all([store.close(), other.close()]);
  },
);

test("A quote that was paid before payments told whether they redeem one stays paid", async () => {
  const version = MIGRATIONS.findIndex((migration) => migration.includes("redeems_quote"));
  const url = await oldDatabase(version, [...settledRows("jobgate."), redeemedQuoteRow("jobgate.")]);
  const store = await openReplica(url);
  expect(await store.findQuote("receipt")).toMatchObject({ isPaid: true });
  const again = paymentIntent(2, { receipt: "receipt", redeemsQuote: true });
  expect(await store.beginPayment(again, paidCall())).toEqual({ kind: "quote_paid" });
  await store.close();
});

async function oldDatabase(version: number, inserts: readonly string[]): Promise<string> {
  const url = await postgres.createDatabase();
  const old = [
    "CREATE SCHEMA jobgate; CREATE TABLE jobgate.schema_version (version int NOT NULL)",
    `INSERT INTO jobgate.schema_version VALUES (${version})`,
    ...MIGRATIONS.slice(0, version),
    ...inserts,
  ];
  for (const statements of old) await postgres.query(url, statements);
  return url;
}
