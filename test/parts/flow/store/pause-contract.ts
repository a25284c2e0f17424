import { describe, expect, test } from "vitest";
import { FLOW } from "../../../../src/parts/flow/store/module.ts";
import { type Given, idsOf } from "../../../store/contract/given.ts";
import {
  acceptId,
  claimCalls,
  claimOne,
  LEASE_MS,
  NO_BACKOFF,
  paidCall,
  paymentIntent,
  webhookCall,
} from "../../../store/store-fixtures.ts";

const OWNER = "/hooks/orders";
const A = { owner: OWNER, key: "a" };
const HOW = { by: "ada", note: "wrong prices", refusesAccepts: false };

export function describePausedKeys(given: Given): void {
  const ledger = () => given.store.of(FLOW);
  const accept = (key: string, holdsOnDead = false) =>
    acceptId(given.store, { order: { owner: OWNER, key, holdsOnDead } });
  const claim = () => claimCalls(given.store, { limit: 10 });
  const retry = { delayMs: 5_000, backoff: NO_BACKOFF, maxAttempts: 3, reason: "later" };
  const only = async () => (await ledger().listHeldKeys(10))[0];
  const out = async () => (await only())?.pause?.isOneOut;

  async function pause(how = HOW) {
    await ledger().pauseKey({ ...A, ...how });
    for (const callId of await ledger().findCallsOfKey(A)) await given.store.withhold(callId);
  }

  describe("a paused key", () => {
    test("Lets its JobCalls wait until it is resumed, beside JobCalls of other keys", async () => {
      const [a1, a2, b1] = [await accept("a"), await accept("a"), await accept("b")];
      const since = given.now;
      await pause();
      given.now += 1_000;
      await accept("a");
      expect(idsOf(await claim())).toEqual([b1]);
      const { by, note, refusesAccepts } = HOW;
      const paused = { since, by, note, refusesAccepts, isOneOut: false };
      expect(await ledger().listHeldKeys(10)).toEqual([
        { ...A, waiting: 3, deadLetter: undefined, pause: paused },
      ]);
      expect(await ledger().countKeys()).toEqual([{ owner: OWNER, keys: 2, held: 0, paused: 1, waiting: 3 }]);
      expect(await ledger().resumeKey(A)).toBe(true);
      const [first] = await claim();
      expect(first?.callId).toBe(a1);
      await given.store.ack(first ?? expect.fail());
      expect(idsOf(await claim())).toEqual([a2]);
      expect(await ledger().listHeldKeys(10)).toEqual([]);
      expect(await ledger().resumeKey(A)).toBe(false);
    });

    test("Lists its JobCalls as held, newest first and page by page, beside calls that wait for payments", async () => {
      const [a1, a2] = [await accept("a"), await accept("a")];
      await accept("b");
      await pause();
      const begun = await given.store.beginPayment(paymentIntent(1), paidCall());
      const held = async (filter = {}) => {
        const { items } = await given.store.listCalls({ state: "held", limit: 2, ...filter });
        expect(items.map(({ state }) => state)).toEqual(items.map(() => "held"));
        return idsOf(items);
      };
      const paid = begun.kind === "begun" ? begun.callId : expect.fail();
      expect(await held()).toEqual([paid, a2]);
      expect(await held({ before: a2 })).toEqual([a1]);
      expect(await held({ origin: "webhook" })).toEqual([a2, a1]);
      expect(await held({ origin: "x402" })).toEqual([paid]);
      expect(await held({ jobId: 99n })).toEqual([]);
      await ledger().resumeKey(A);
      expect(await held()).toEqual([paid, a2]);
      expect(await held({ before: a2 })).toEqual([]);
    });

    test("Lets a JobCall that is out finish, and readies no other one", async () => {
      const [, a2] = [await accept("a"), await accept("a")];
      const first = await claimOne(given.store);
      await pause();
      expect(await out()).toBe(true);
      await given.store.ack(first);
      expect(await claim()).toEqual([]);
      expect(await out()).toBe(false);
      await ledger().resumeKey(A);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("Readies no second JobCall when it is resumed while one is out", async () => {
      const [, a2] = [await accept("a"), await accept("a")];
      const first = await claimOne(given.store);
      await pause();
      await ledger().resumeKey(A);
      expect(await claim()).toEqual([]);
      await given.store.ack(first);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    for (const [what, end] of [
      ["a retry", (one) => given.store.retry(one, retry)],
      ["a retry without delay", (one) => given.store.retry(one, { ...retry, delayMs: 0 })],
      ["a release", (one) => given.store.release(one, { ...retry, excused: true })],
      ["a release of a suspect", (one) => given.store.release(one, { ...retry, excused: false })],
      ["a lost lease", () => given.store.expireLeases(3)],
    ] as readonly [string, (one: Awaited<ReturnType<typeof claimOne>>) => Promise<unknown>][])
      test(`Lets a JobCall that was out wait after ${what}`, async () => {
        const [a1] = [await accept("a"), await accept("a")];
        const first = await claimOne(given.store);
        await pause();
        if (what === "a lost lease") given.now += LEASE_MS;
        await end(first);
        given.now += LEASE_MS;
        const claimed = await claimCalls(given.store, { limit: 10, suspects: 10 });
        expect(claimed).toEqual([]);
        expect(await only()).toMatchObject({ waiting: 2, pause: { isOneOut: false } });
        await ledger().resumeKey(A);
        const again = await claimOne(given.store);
        expect(again).toMatchObject({ callId: a1, attempt: 2 });
        expect(await claim()).toEqual([]);
      });

    test.each(["retry", "release"] as const)(
      "Withholds a JobCall whose delay after a %s was not over yet",
      async (end) => {
        const a1 = await accept("a");
        const first = await claimOne(given.store);
        if (end === "retry") await given.store.retry(first, retry);
        else await given.store.release(first, { ...retry, excused: false });
        await pause();
        expect(await only()).toMatchObject({ waiting: 1, pause: { isOneOut: false } });
        given.now += retry.delayMs;
        expect(await claimCalls(given.store, { limit: 10, suspects: 10 })).toEqual([]);
        await ledger().resumeKey(A);
        expect(idsOf(await claim())).toEqual([a1]);
      },
    );

    test("Stays paused without any JobCall, and lets the first one wait", async () => {
      await pause();
      expect(await only()).toMatchObject({ ...A, waiting: 0, pause: { isOneOut: false } });
      const a1 = await accept("a");
      expect(await claim()).toEqual([]);
      await pause();
      await ledger().resumeKey(A);
      await given.store.ack(await claimOne(given.store));
      expect(await ledger().countKeys()).toEqual([]);
      await pause();
      const a2 = await accept("a");
      expect(await claim()).toEqual([]);
      await ledger().resumeKey(A);
      expect(idsOf(await claim())).toEqual([a2]);
      expect(a2).toBeGreaterThan(a1);
    });

    test("Leaves no row behind when it is resumed without any JobCall", async () => {
      await pause();
      await ledger().resumeKey(A);
      expect(await ledger().countKeys()).toEqual([]);
    });

    test("Keeps its time when it is paused again, and gets the other reason", async () => {
      const since = given.now;
      await accept("a");
      const first = await claimOne(given.store);
      await pause();
      given.now += 1_000;
      await pause({ by: "bob", note: "", refusesAccepts: true });
      expect(await only()).toMatchObject({ pause: { since, by: "bob", note: "", isOneOut: true } });
      await given.store.ack(first);
      await pause();
      expect(await only()).toMatchObject({ pause: { since, by: "ada", isOneOut: false } });
    });

    test("Stays held by its dead letter when it is resumed", async () => {
      const [a1, a2] = [await accept("a", true), await accept("a", true)];
      await given.store.fail(await claimOne(given.store), "no");
      await pause();
      expect(await only()).toMatchObject({ waiting: 1, deadLetter: { callId: a1 }, pause: { by: "ada" } });
      await ledger().resumeKey(A);
      expect(await claim()).toEqual([]);
      expect(await only()).toMatchObject({ deadLetter: { callId: a1 }, pause: undefined });
      await given.store.dropDeadLetter(a1);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("Stays paused when the dead letter that holds it up is retried", async () => {
      const [a1, a2] = [await accept("a", true), await accept("a", true)];
      await given.store.fail(await claimOne(given.store), "no");
      await pause();
      expect(await given.store.retryDeadLetter(a1)).toBe("retried");
      expect(await claim()).toEqual([]);
      expect(await only()).toMatchObject({ waiting: 2, deadLetter: undefined, pause: { isOneOut: false } });
      await ledger().resumeKey(A);
      const again = await claimOne(given.store);
      expect(again.callId).toBe(a1);
      await given.store.ack(again);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("Stays paused when the dead letter that holds it up is dropped", async () => {
      const [a1, a2] = [await accept("a", true), await accept("a", true)];
      await given.store.fail(await claimOne(given.store), "no");
      await pause();
      await given.store.dropDeadLetter(a1);
      expect(await claim()).toEqual([]);
      expect(await only()).toMatchObject({ waiting: 1, deadLetter: undefined });
      await ledger().resumeKey(A);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("Is held by a JobCall that was out and became a dead letter", async () => {
      const [a1, a2] = [await accept("a", true), await accept("a", true)];
      const first = await claimOne(given.store);
      await pause();
      expect((await given.store.fail(first, "no")).deadLettered).toMatchObject({ holdsKeyOf: OWNER });
      expect(await ledger().countKeys()).toEqual([{ owner: OWNER, keys: 1, held: 1, paused: 0, waiting: 1 }]);
      await ledger().resumeKey(A);
      expect(await claim()).toEqual([]);
      await given.store.retryDeadLetter(a1);
      expect(idsOf(await claim())).toEqual([a1]);
      expect(a2).toBeGreaterThan(a1);
    });

    test("Goes on with the JobCall that became a dead letter and was retried during the pause", async () => {
      const a1 = await accept("a", true);
      const first = await claimOne(given.store);
      await pause();
      await given.store.fail(first, "no");
      expect(await out()).toBe(false);
      await given.store.retryDeadLetter(a1);
      expect(await claim()).toEqual([]);
      await ledger().resumeKey(A);
      expect(idsOf(await claim())).toEqual([a1]);
    });

    test("Goes on after a dead letter that holds nothing up, once it is resumed", async () => {
      const [, a2] = [await accept("a"), await accept("a")];
      const first = await claimOne(given.store);
      await pause();
      const { deadLettered } = await given.store.fail(first, "no");
      expect(deadLettered).not.toHaveProperty("holdsKeyOf");
      expect(await claim()).toEqual([]);
      await ledger().resumeKey(A);
      expect(idsOf(await claim())).toEqual([a2]);
    });

    test("Refuses new JobCalls if the operator says so, and knows repeats of those before", async () => {
      const order = { ...A, holdsOnDead: false };
      const delivery = { keys: [{ key: "d", identifies: true }], bodyHash: "", windowMs: 60_000 };
      const first = await given.store.acceptOnce(webhookCall({ order }), delivery);
      await pause({ ...HOW, refusesAccepts: true });
      expect(await given.store.accept(webhookCall({ order }))).toEqual({ kind: "key_paused" });
      expect(await given.store.acceptOnce(webhookCall({ order }), delivery)).toEqual({
        ...first,
        kind: "duplicate",
      });
      await accept("b");
      expect(await only()).toMatchObject({ waiting: 1, pause: { refusesAccepts: true } });
      await ledger().resumeKey(A);
      expect(await claim()).toHaveLength(2);
      await accept("a");
    });

    test("Withholds no JobCall that another one's pause does not concern", async () => {
      const [a1, b1] = [await accept("a"), await accept("b")];
      const unordered = await acceptId(given.store);
      for (const callId of [a1, b1, unordered, 999]) expect(await given.store.withhold(callId)).toBe(false);
      expect(await ledger().findCallsOfKey(A)).toEqual([a1]);
      await pause();
      expect(await given.store.withhold(a1)).toBe(false);
      expect(idsOf(await claim())).toEqual([b1, unordered]);
    });

    test("Is counted in the totals", async () => {
      await accept("b", true);
      await given.store.fail(await claimOne(given.store), "no");
      await pause();
      expect((await given.store.totals()).sums.keys).toEqual([{ held: 1, paused: 1 }]);
    });

    test("Wakes the listener of work when it is resumed", async () => {
      await pause();
      const a1 = await accept("a");
      let heard: (() => void) | undefined;
      const hearing = new Promise<void>((resolve) => {
        heard = resolve;
      });
      const stop = given.store.onWork(() => heard?.());
      await ledger().resumeKey(A);
      await hearing;
      stop();
      expect(idsOf(await claim())).toEqual([a1]);
    });

    test("Is paused at most once, whatever is done at the same time", async () => {
      const a1 = await accept("a");
      const [, claimed] = await Promise.all([ledger().pauseKey({ ...A, ...HOW }), claim(), accept("a")]);
      for (const callId of await ledger().findCallsOfKey(A)) await given.store.withhold(callId);
      const isOut = claimed.length === 1;
      expect(await out()).toBe(isOut);
      for (const one of claimed) await given.store.ack(one);
      await Promise.all([ledger().resumeKey(A), ledger().resumeKey(A)]);
      const next = await claim();
      expect(next).toHaveLength(1);
      expect(next[0]?.callId === a1).toBe(!isOut);
    });
  });
}
