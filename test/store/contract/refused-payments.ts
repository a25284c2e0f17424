import { describe, expect, test } from "vitest";
import {
  type ListedRefusedPayment,
  MAX_REFUSED_PAYMENTS,
  REFUSED_AT_ONCE,
  REFUSED_KEPT_MS,
  type RefusedPayment,
} from "../../../src/store/contract/refused-payments.ts";
import type { Given } from "./given.ts";

const payerOf = (number: number) => `0x${number.toString(16).padStart(40, "0")}`;

const refusedAt = (at: number, number: number): RefusedPayment => ({
  at,
  requestId: `r0-${number}`,
  serviceId: 2n ** 64n - 1n,
  jobIndex: 3,
  code: "payment_invalid",
  message: `message ${number}`,
  reason: "insufficient_funds \0 \ud800",
  payment: { payer: payerOf(number), network: "eip155:8453", amount: String(2n ** 256n - 1n) },
});

/** The test of the limit, which writes so many rows that it takes seconds. */
export function describeManyRefusedPayments(given: Given): void {
  test("The newest 100,000 refused payments are kept", async () => {
    const rounds = MAX_REFUSED_PAYMENTS / REFUSED_AT_ONCE;
    for (let round = 0; round <= rounds; round++) {
      const numbers = Array.from({ length: REFUSED_AT_ONCE }, (_, index) => round * REFUSED_AT_ONCE + index);
      await given.store.saveRefusedPayments(numbers.map((number) => refusedAt(given.now, number)));
    }
    const kept = await given.store.listRefusedPayments({ limit: 2 * MAX_REFUSED_PAYMENTS });
    expect(kept).toHaveLength(MAX_REFUSED_PAYMENTS);
    expect(kept.at(-1)?.message).toBe(`message ${REFUSED_AT_ONCE}`);
    expect(given.batches).toHaveLength(rounds + 1);
  }, 60_000);
}

export function describeRefusedPayments(given: Given): void {
  const refused = (number: number, over: Partial<RefusedPayment> = {}): RefusedPayment => ({
    ...refusedAt(given.now, number),
    ...over,
  });
  const save = (...those: RefusedPayment[]) => given.store.saveRefusedPayments(those);
  const list = (filter = {}) => given.store.listRefusedPayments({ limit: 100_000, ...filter });
  const messages = (listed: readonly ListedRefusedPayment[]) => listed.map(({ message }) => message);

  describe("refused payments", () => {
    test("Refused payments are listed newest first, whole, also after a restart", async () => {
      const { payment: _, reason: __, ...unreadable } = refused(2, { code: "invalid_payment" });
      await save(refused(1), unreadable);
      await save(refused(3));
      await given.reopen();
      const all = await list();
      expect(all.map(({ id: _, ...one }) => one)).toEqual([refused(3), unreadable, refused(1)]);
      expect(messages(await list({ before: all[0]?.id, limit: 1 }))).toEqual(["message 2"]);
    });

    test("Refused payments are found by payer, job, code and request", async () => {
      await save(
        refused(1),
        refused(2, { serviceId: 1n, code: "payment_replay" }),
        refused(3, { jobIndex: 4 }),
      );
      const { payment, requestId } = refused(2);
      for (const filter of [
        { payer: payment?.payer },
        { requestId },
        { code: "payment_replay" },
        { serviceId: 1n, jobIndex: 3 },
        { serviceId: 1n },
      ])
        expect([filter, messages(await list(filter))]).toEqual([filter, ["message 2"]]);
      expect(messages(await list({ jobIndex: 4 }))).toEqual(["message 3"]);
      expect(await list({ code: "\0" })).toEqual([]);
      expect(await list({ payer: payment?.payer, jobIndex: 4 })).toEqual([]);
    });

    test("Refused payments are counted by job, code and reason, the most frequent first", async () => {
      const { reason, ...bare } = refused(4);
      await save(refused(1), refused(2), bare, refused(3, { jobIndex: 4 }));
      given.now += 5;
      await save(refused(5, { jobIndex: 4 }), refused(6), refused(7, { code: "payment_replay" }));
      const of = { serviceId: refused(1).serviceId, jobIndex: 3, code: "payment_invalid" };
      const counts = [
        { ...of, reason, count: 3, newestAt: given.now },
        { ...of, jobIndex: 4, reason, count: 2, newestAt: given.now },
        { ...of, code: "payment_replay", reason, count: 1, newestAt: given.now },
        { ...of, count: 1, newestAt: given.now - 5 },
      ];
      expect(await given.store.countRefusedPayments()).toEqual(counts);
      given.now += REFUSED_KEPT_MS - 5;
      const left = await given.store.countRefusedPayments();
      expect(left.map(({ count }) => count)).toEqual([1, 1, 1]);
    });

    test("A refused payment is kept for a week, and a write of nothing forgets the older ones", async () => {
      await save(refused(1));
      given.now += REFUSED_KEPT_MS / 2;
      await save(refused(2));
      given.now += REFUSED_KEPT_MS / 2;
      expect(messages(await list())).toEqual(["message 2"]);
      await save();
      // The clock goes back, so that only a row that is gone stays hidden.
      given.now -= REFUSED_KEPT_MS;
      expect(messages(await list())).toEqual(["message 2"]);
    });

    test("Writes at once forget as many old refused payments as writes one after the other", async () => {
      const many = Array.from({ length: REFUSED_AT_ONCE }, (_, number) => refused(number));
      for (const some of [many, many, many]) await save(...some);
      given.now += REFUSED_KEPT_MS;
      await Promise.all([save(), save()]);
      given.now -= REFUSED_KEPT_MS;
      expect(await list()).toEqual([]);
    });
  });
}
