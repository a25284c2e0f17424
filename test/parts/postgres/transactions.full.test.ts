import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { TRANSACTIONS } from "../../../src/parts/transactions/store/module.ts";
import type { Store } from "../../../src/store/store.ts";
import { ACCOUNT, acceptId, NETWORK, newTransaction, signedTransaction } from "../../store/store-fixtures.ts";
import { givenReplica } from "./given-replica.ts";
import { openReplica } from "./open-in-database.ts";

const given = givenReplica();
const COUNT = 60;
/** An owner gives the network up at a random moment, within this time. */
const GIVEN_UP_WITHIN_MS = 4;

/** Signs whatever is queued, as long as it holds the network, until all transactions are signed. */
async function signAll(store: Store, owner: string): Promise<void> {
  for (;;) {
    if (await store.holdLock(NETWORK, owner, 60_000)) {
      const filter = { state: "queued", limit: 1 + Math.floor(Math.random() * 5) } as const;
      const { transactions, lastNonces } = await store.of(TRANSACTIONS).listOpenTransactions(NETWORK, filter);
      const last = lastNonces[0]?.nonce ?? -1;
      const signed = transactions.map(({ reference }, index) => ({
        ...signedTransaction(0, last + 1 + index),
        reference,
      }));
      // Given up while it signs: what the next owner reads may be out of date.
      await Promise.all([
        store.of(TRANSACTIONS).signTransactions(NETWORK, owner, signed),
        sleep(Math.random() * GIVEN_UP_WITHIN_MS).then(() => store.holdLock(NETWORK, owner, 0)),
      ]);
    }
    const { transactions } = await store
      .of(TRANSACTIONS)
      .listOpenTransactions(NETWORK, { state: "sent", limit: 1_000 });
    if (transactions.length === COUNT) return;
  }
}

test("Replicas that take a network from each other give each transaction one nonce, without a gap", async () => {
  const other = await openReplica(given.url);
  const both = [given.store, other];
  try {
    const numbers = Array.from({ length: COUNT }, (_, i) => i + 1);
    const queued = Promise.all(
      numbers.flatMap((number) =>
        both.map((store) => store.of(TRANSACTIONS).queueTransaction(newTransaction(number))),
      ),
    );
    await Promise.all([queued, ...both.map((store, index) => signAll(store, `owner ${index}`))]);
    const filter = { state: "sent", limit: 1_000 } as const;
    const { transactions, lastNonces } = await other.of(TRANSACTIONS).listOpenTransactions(NETWORK, filter);
    const nonces = transactions.map(({ signed }) => signed?.nonce ?? -1);
    expect(nonces.toSorted((left, right) => left - right)).toEqual(numbers.map((number) => number - 1));
    expect(lastNonces).toEqual([{ account: ACCOUNT, nonce: COUNT - 1 }]);
  } finally {
    await other.close();
  }
});

test("An owner that stalls inside a write loses the network later, and holds up nothing else", async () => {
  const { store, url, postgres } = given;
  await store.of(TRANSACTIONS).queueTransaction(newTransaction(1));
  await store.holdLock(NETWORK, "owner", 1);
  const stalled = await postgres.hold(url, "SELECT FROM jobgate.locks FOR UPDATE");
  expect(await store.holdLock(NETWORK, "other", 60_000)).toBe(false);
  await acceptId(store);
  await stalled.commit();
  expect(await store.holdLock(NETWORK, "other", 60_000)).toBe(true);
  expect(await store.of(TRANSACTIONS).signTransactions(NETWORK, "owner", [signedTransaction(1, 0)])).toBe(
    "not_owner",
  );
});

test("A signature that waits for the network's lock is refused once another owner has the network", async () => {
  const { store, url, postgres } = given;
  await store.of(TRANSACTIONS).queueTransaction(newTransaction(1));
  await store.holdLock(NETWORK, "owner", 60_000);
  const taking = await postgres.hold(url, "UPDATE jobgate.locks SET owner = 'other'");
  const signing = store.of(TRANSACTIONS).signTransactions(NETWORK, "owner", [signedTransaction(1, 0)]);
  await expect
    .poll(() => postgres.query(url, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    .toHaveLength(1);
  await taking.commit();
  expect(await signing).toBe("not_owner");
  expect(await store.of(TRANSACTIONS).findTransactions(NETWORK, [newTransaction(1).reference])).toMatchObject(
    [{ state: "queued" }],
  );
});
