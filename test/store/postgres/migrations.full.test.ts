import { expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/store/postgres/schema.ts";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import {
  deadLetterRow,
  expectFirstMovement,
  finishedRow,
  redeemedQuoteRow,
  SETTLED_IN_FIRST_VERSION,
  settledRows,
} from "../first-version-rows.ts";
import { NETWORK, newTransaction, paidCall, paidId, paymentIntent } from "../store-fixtures.ts";
import { openReplica } from "./open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

test.each(MIGRATIONS.slice(1).map((_, index) => index + 1))(
  "A database of schema version %i is brought up to date by two replicas at once, and what it holds is kept",
  async (version) => {
    const hasList = MIGRATIONS.slice(0, version).some((sql) => sql.includes("TABLE jobgate.finished_calls"));
    const rows = [...settledRows("jobgate."), deadLetterRow("jobgate.")];
    const url = await oldDatabase(version, [...rows, ...(hasList ? [finishedRow("jobgate.")] : [])]);
    const [store, other] = await Promise.all([openReplica(url), openReplica(url)]);
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
    const secrets = await Promise.all([store.keepSecret("a", "one"), other.keepSecret("a", "two")]);
    expect(secrets[0]).toBe(secrets[1]);
    const revenue = await store.revenue({ since: 0, bucketMs: 3_600_000 });
    expect(revenue[0]).toMatchObject({ from: 0, symbol: "USDC", amount: 1n, payments: 1 });
    await expectFirstMovement(store);
    await paidId(store, 2);
    expect(await other.listCallbacks({ limit: 9 })).toMatchObject([
      { event: "payment.settled", state: "pending" },
    ]);
    expect(await other.findPayment(paymentIntent(2).key)).toMatchObject({ state: "settled" });
    const identified = paymentIntent(4, { paymentId: "order_0123456789" });
    await store.beginPayment(identified, paidCall());
    const identifier = { payer: identified.key.payer, id: "order_0123456789" };
    expect(await other.findPaymentByIdentifier(identifier)).toMatchObject(identified);
    await store.beginPayment(paymentIntent(3), paidCall());
    await store.failPayment(paymentIntent(3).key, "{}", "not paid");
    const closing = { as: "paid", by: "ada", note: "it was" } as const;
    expect(await other.closePayment(paymentIntent(3).key, closing)).toMatchObject({ kind: "closed" });
    const queued = await store.queueTransaction(newTransaction(1));
    expect(await other.findTransactions(NETWORK, [queued.reference])).toEqual([queued]);
    await store.prune({ kind: "results", ageMs: 1, after: 0 });
    expect(await store.findCall(callId)).toMatchObject({ state: "expired", payment: key });
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
