import { describe, expect, test } from "vitest";
import { encodeJobCall } from "../../../../src/delivery/job-call-codec.ts";
import { SearchIndexer } from "../../../../src/parts/search/indexer.ts";
import type { Found, SearchIndex } from "../../../../src/parts/search/store/index-contract.ts";
import { SEARCH } from "../../../../src/parts/search/store/module.ts";
import type { ClaimedCall } from "../../../../src/store/contract/work-queue.ts";
import { startLog } from "../../../helpers/log.ts";
import type { Given } from "../../../store/contract/given.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  paidCall,
  paymentIntent,
  webhookCall,
} from "../../../store/store-fixtures.ts";

const HOUR_MS = 3_600_000;
const RESULT = { body: Buffer.from("42"), contentType: "text/plain" };

/** A JobCall of a store that encodes JobCalls as their bodies: its body has the encoded metadata. */
function withMetadata(metadata: Record<string, string>) {
  const call = webhookCall();
  const head = encodeJobCall({ ...call, body: new Uint8Array(), metadata });
  return { metadata: { head: Buffer.from(head).toString() }, body: new Uint8Array() };
}

/** Runs the indexer of a new process until nothing is left to do. */
async function fill(given: Given, index: SearchIndex = given.store.of(SEARCH)): Promise<SearchIndexer> {
  const indexer = new SearchIndexer({
    index,
    store: given.store,
    logger: startLog("error").logger,
    clock: () => given.now,
  });
  while (await indexer.step());
  return indexer;
}

const idsOf = (found: readonly { readonly callId: number }[]) => found.map(({ callId }) => callId);

export function describeSearch(given: Given): void {
  const search = (text: string): Promise<Found> => given.store.of(SEARCH).search(text);

  async function buy(number: number, transaction: string, purchaseName?: string): Promise<number> {
    const intent = paymentIntent(number, purchaseName === undefined ? {} : { purchaseName });
    const begun = await given.store.beginPayment(intent, paidCall());
    if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
    await given.store.settlePayment(intent.key, JSON.stringify({ transaction }));
    return begun.callId;
  }

  describe("the search", () => {
    test("A payment is found by the beginning of its transaction, of its identifier and of its payer, in any letter case", async () => {
      const first = await buy(1, `0x5e1d${"0".repeat(60)}`, "Order-17");
      given.now += 1;
      const second = await buy(2, `0x5e1d${"1".repeat(60)}`, "order-18");
      await buy(3, `0x77${"0".repeat(62)}`);
      await fill(given);
      const found = await search("0x5E1d");
      expect(idsOf(found.transactions)).toEqual([first, second]);
      expect(found.transactions[1]?.value).toBe(`0x5e1d${"1".repeat(60)}`);
      expect((await search("ORDER-1")).purchaseNames).toEqual([
        { callId: first, value: "Order-17" },
        { callId: second, value: "order-18" },
      ]);
      expect((await search("0xF39f")).payers).toEqual([paymentIntent(1).key.payer]);
      expect((await search("0xf39e")).payers).toEqual([]);
      expect((await search("0x5e1d")).calls.map(({ state }) => state)).toEqual(["ready", "ready"]);
    });

    test("Whatever is longer than a term is compared in full", async () => {
      const hash = `0x${"ab".repeat(32)}`;
      const callId = await buy(1, hash);
      await fill(given);
      expect(idsOf((await search(hash)).transactions)).toEqual([callId]);
      expect((await search(`${hash.slice(0, -1)}c`)).transactions.map(({ value }) => value)).toEqual([]);
    });

    test("A call is found by its number, the equal one first, and by a value of its metadata while it waits and once it is done", async () => {
      for (let number = 0; number < 12; number++) await acceptId(given.store);
      const callId = await acceptId(given.store, withMetadata({ "X-HTTP-X-ORDER": "Große Bestellung" }));
      const { numbers } = await search("1");
      expect(numbers[0]).toBe(1);
      expect(numbers.slice(1)).toEqual([callId, 12, 11, 10]);
      await fill(given);
      expect((await search("große b")).withMetadata).toEqual([callId]);
      while ((await given.store.totals()).calls.ready > 0)
        for (const call of await claimCalls(given.store)) await given.store.ack(call, RESULT);
      const { calls } = await search("GROßE");
      expect(calls.map((call) => [call.callId, call.state])).toEqual([[callId, "done"]]);
      expect(Buffer.from(calls[0]?.head ?? []).toString()).toContain("Große Bestellung");
    });

    test("Metadata that jobgate makes for every call of a job is not in the index", async () => {
      await acceptId(
        given.store,
        withMetadata({ "X-WEBHOOK-PATH": "/hooks/a", "X-CHAIN-SERVICE-ID": "123" }),
      );
      await fill(given);
      expect((await search("/hooks")).withMetadata).toEqual([]);
      expect((await search("123")).withMetadata).toEqual([]);
    });

    test("A refused request is found by its ID and by its payer", async () => {
      const payer = `0x${"cd".repeat(20)}`;
      await given.store.saveRefusedPayments([
        {
          ...{ at: given.now, requestId: "r5f0c-17", serviceId: 1n, jobIndex: 3, code: "payment_invalid" },
          ...{ message: "no", payment: { payer, network: "eip155:8453", amount: "1" } },
        },
      ]);
      await fill(given);
      for (const text of ["R5F0", "0xCDcd"])
        expect((await search(text)).requests).toEqual([
          {
            requestId: "r5f0c-17",
            payer,
            code: "payment_invalid",
            serviceId: 1n,
            jobIndex: 3,
            at: given.now,
          },
        ]);
    });

    test("Calls of many steps are all found, and a further filling finds none twice", async () => {
      const callIds: number[] = [];
      // More finished calls than one step reads, and fewer dead letters, whose last is as new.
      for (let round = 0; round < 12; round++) {
        const accepts = Array.from({ length: 40 }, (_, place) =>
          acceptId(given.store, withMetadata({ "X-HTTP-X-ORDER": `order-${40 * round + place}-` })),
        );
        callIds.push(...(await Promise.all(accepts)));
        const claimed: ClaimedCall[] = [];
        while (claimed.length < 40) claimed.push(...(await claimCalls(given.store)));
        const ends = claimed.map((call, place) =>
          place % 4 === 0 ? given.store.fail(call, "no good") : given.store.ack(call, RESULT),
        );
        await Promise.all(ends);
      }
      const foundAt = async (place: number) => (await search(`order-${place}-`)).withMetadata;
      await fill(given);
      const found = await Promise.all(callIds.map((_, place) => foundAt(place)));
      expect(found).toEqual(callIds.map((callId) => [callId]));
      await given.reopen();
      await fill(given);
      for (let place = 0; place < callIds.length; place += 40)
        expect(await foundAt(place)).toEqual([callIds[place]]);
    });

    test("A process that is killed between two writes of a step leaves nothing out, and nothing twice", async () => {
      const callId = await acceptId(given.store, withMetadata({ "X-HTTP-X-ORDER": "order-1" }));
      await buy(1, "0x5e1d00", "order-1");
      const index = given.store.of(SEARCH);
      // The terms are written, and nothing of what follows is.
      const killed = fill(given, {
        ...methodsOf(index),
        async addSearchTerms(terms) {
          await index.addSearchTerms(terms, []);
          throw new Error("killed");
        },
      });
      await expect(killed).rejects.toThrow("killed");
      await given.reopen();
      await fill(given);
      const found = await search("order-1");
      expect([found.withMetadata, found.purchaseNames.length]).toEqual([[callId], 1]);
      expect((await search("0x5e1d")).transactions).toHaveLength(1);
    });

    test("What becomes durable behind the position of a shared store is found", async () => {
      const first = await acceptId(given.store, withMetadata({ "X-HTTP-X-ORDER": "order-1" }));
      const index = given.store.of(SEARCH);
      // Another replica has not committed the call yet.
      const blind: SearchIndex = {
        ...methodsOf(index),
        async listUnindexed(source, after, minAgeMs) {
          const read = await index.listUnindexed(source, after, minAgeMs);
          return { ...read, heads: minAgeMs > 0 ? read.heads : [] };
        },
      };
      const shared = Object.assign(Object.create(given.store), { isShared: true });
      const logger = startLog("error").logger;
      const indexer = new SearchIndexer({ index: blind, store: shared, logger, clock: () => given.now });
      await indexer.step();
      expect((await search("order-1")).withMetadata).toEqual([]);
      given.now += 61_000;
      await indexer.step();
      expect((await search("order-1")).withMetadata).toEqual([first]);
    });

    test("Entries are forgotten with their calls, and are not found before that", async () => {
      await acceptId(given.store, withMetadata({ "X-HTTP-X-ORDER": "order-1" }));
      await given.store.ack(await claimOne(given.store), RESULT);
      const kept = await acceptId(given.store, withMetadata({ "X-HTTP-X-ORDER": "order-2" }));
      const indexer = await fill(given);
      const index = given.store.of(SEARCH);
      expect((await search("order-")).withMetadata).toHaveLength(2);
      given.now += HOUR_MS;
      await given.store.prune({ kind: "calls", ageMs: 1_000, after: 0 });
      expect(idsOf((await search("order-")).calls)).toEqual([kept]);
      expect(await index.findForgotten(0)).toMatchObject({ isAnyGone: true });
      while (await indexer.step());
      expect((await search("order-")).withMetadata).toEqual([kept]);
      expect(await index.findForgotten(0)).toMatchObject({ isAnyGone: false });
    });

    test("A search says that it is incomplete while it lacks calls of minutes ago", async () => {
      await acceptId(given.store);
      expect((await search("abc")).isIncomplete).toBe(false);
      given.now += HOUR_MS;
      expect((await search("abc")).isIncomplete).toBe(true);
      await fill(given);
      expect((await search("abc")).isIncomplete).toBe(false);
    });
  });
}

/** The methods of the index as an object's own, to replace some. */
function methodsOf(index: SearchIndex): SearchIndex {
  return {
    searchPositions: () => index.searchPositions(),
    listUnindexed: (...input) => index.listUnindexed(...input),
    addSearchTerms: (...input) => index.addSearchTerms(...input),
    findForgotten: (after) => index.findForgotten(after),
    forgetSearchTerms: (after) => index.forgetSearchTerms(after),
    search: (text) => index.search(text),
  };
}
