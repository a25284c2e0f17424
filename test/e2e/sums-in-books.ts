import { expect, test } from "vitest";
import type { MovementGroup, MovementSum } from "../../src/parts/books/store/ledger.ts";
import { REFUNDS } from "../../src/parts/refunds/store/module.ts";
import { YOUNG_MS } from "../../src/store/contract/payment-journal.ts";
import { randomFrom } from "../helpers/seeded-random.ts";
import { booksOf, TODAY } from "../parts/books/store/store-contract.ts";
import type { Given } from "../store/contract/given.ts";
import { claimCalls, claimOne, newTransaction, paymentIntent } from "../store/store-fixtures.ts";

const SETTLEMENT = JSON.stringify({ success: true, transaction: `0x${"ab".repeat(32)}` });
const DAY_MS = 86_400_000;

type Group = Pick<MovementSum, "day" | "job" | "network" | "token" | "decimals">;

/** Names what a sum is of. */
function groupOf({ day, job, network, token }: Group, by: MovementGroup): string {
  const of = by === "day" ? day : by === "job" && job ? `${job.serviceId}/${job.jobIndex}` : "";
  return `${of} ${network} ${token?.symbol ?? "coin"}`;
}

/** Tests of the sums of the books with refunds in them, for every kind of store. */
export function describeSumsInBooks(given: Given): void {
  const { movements, sums, begin, mine } = booksOf(given);

  /** Pays a call's payer back, as the transaction of the refund shows. */
  async function payBack(callId: number): Promise<void> {
    const refunds = given.store.of(REFUNDS);
    const sent = newTransaction(10_000 + callId);
    await refunds.sendRefund(callId, 1, sent);
    const end = { state: "sent", transaction: "0xback", blockNumber: "9", account: null } as const;
    await refunds.endRefund(callId, sent.reference, end);
  }

  test("A refund is in the sums of the day of the refund, and its sale in the sums of the day of the sale", async () => {
    const callId = await begin(1, { onFailure: "refund" });
    await given.store.settlePayment(paymentIntent(1).key, SETTLEMENT);
    await given.store.fail(await claimOne(given.store), "no ink");
    given.now += 3 * DAY_MS;
    await payBack(callId);
    const job = { serviceId: paymentIntent(1).serviceId, jobIndex: paymentIntent(1).jobIndex };
    const none = { chargedBack: 0n, lost: 0n, fees: 0n, corrected: 0n };
    const sold = { ...none, payments: 1n, sold: 3264000n, refunded: 0n, net: 3264000n };
    const back = { ...none, payments: 0n, sold: 0n, refunded: 3264000n, net: -3264000n };
    expect(await sums("day")).toMatchObject([
      { day: TODAY, job: undefined, ...sold },
      { day: TODAY + 3, job: undefined, ...back },
    ]);
    expect(await sums("job")).toMatchObject([{ day: undefined, job, ...sold, refunded: 3264000n, net: 0n }]);
    expect(await sums("job", TODAY, TODAY + 3)).toMatchObject([{ job, ...sold }]);
    expect(await sums("job", TODAY + 1, TODAY + 3)).toEqual([]);
  });

  test("The sums agree with the movements, whatever happens", async () => {
    const random = randomFrom(1);
    const one = <Value>(values: readonly Value[]) => values[random(values.length)] as Value;
    for (let number = 1; number <= 40; number++) {
      const token = one([
        {},
        { symbol: "EURC", decimals: 2, key: { ...paymentIntent(number).key, asset: "0xeurc" } },
        { key: { ...paymentIntent(number).key, network: "eip155:1" } },
      ]);
      const amount = String(one([1n, 999_999_999n, 1_000_000_000n, 10n ** 18n, 2n ** 63n, 2n ** 64n - 1n]));
      const sale = { ...token, amount, jobIndex: random(3), serviceId: one([0n, 9n, 10n, 2n ** 64n - 1n]) };
      const intent = paymentIntent(number, { ...sale, onFailure: "refund", validBefore: 9e9 });
      if (random(4) === 0)
        await mine(number, one(["succeeded", "reverted"]), one(["1", `1${"0".repeat(20)}`]));
      else {
        const callId = await begin(number, intent);
        await one([
          async () => given.store.settlePayment(intent.key, SETTLEMENT),
          async () => {
            await given.store.leavePaymentUnresolved(intent.key, "nobody knows");
            given.now += YOUNG_MS;
            await given.store.closePayment(intent.key, { as: "paid", by: "ada", note: "seen" });
            await given.store.contradictPayment(intent.key, "not paid");
          },
          async () => {
            await given.store.settlePayment(intent.key, SETTLEMENT);
            await given.store.fail(await claimOne(given.store), "no ink");
            given.now += random(3) * DAY_MS;
            await payBack(callId);
          },
        ])();
        for (const call of await claimCalls(given.store)) await given.store.ack(call);
      }
      given.now += random(DAY_MS);
    }
    const all = await movements();
    expect(new Set(all.map(({ kind }) => kind))).toEqual(
      new Set(["payment", "correction", "refund", "network_fee"]),
    );
    for (const by of ["token", "network", "job", "day"] as const) {
      const found = await sums(by);
      const nets = new Map(found.map((sum) => [groupOf(sum, by), sum.net]));
      expect(nets.size).toBe(found.length);
      const expected = new Map<string, bigint>();
      for (const movement of all) {
        const { sale, at } = movement;
        const group = groupOf({ ...movement, job: sale, day: Math.floor(at / DAY_MS) }, by);
        expected.set(group, (expected.get(group) ?? 0n) + BigInt(movement.amount));
      }
      expect(nets).toEqual(expected);
      for (const [column, kind] of Object.entries({
        sold: "payment",
        refunded: "refund",
        fees: "network_fee",
      })) {
        const sum = all
          .filter((one) => one.kind === kind)
          .reduce((sum, { amount }) => sum + BigInt(amount), 0n);
        const counted = found.reduce((sum, row) => sum + row[column as "sold" | "refunded" | "fees"], 0n);
        expect({ column, counted }).toEqual({ column, counted: sum < 0n ? -sum : sum });
      }
    }
    const days = await sums("day");
    expect(days.map(({ day }) => day)).toEqual(days.map(({ day = 0 }) => day).toSorted((a, b) => a - b));
  });
}
