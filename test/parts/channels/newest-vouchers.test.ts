import { expect, test } from "vitest";
import { NewestVouchers } from "../../../src/parts/channels/newest-vouchers.ts";
import type { ChannelRow } from "../../../src/parts/channels/store/row.ts";
import { channelTerms } from "../../../src/parts/channels/terms.ts";
import type { SignedPayment } from "../../../src/x402/methods/method.ts";

const ID = `0x${"c".repeat(64)}`;
const ADDRESS = `0x${"a".repeat(40)}`;
const PRICE = 10n;

const rowOf = (signed: bigint, deposits = 0, balance = 1_000n) => {
  const sums = { signed, base: signed, charged: signed, lost: 0n, balance };
  const digits = Object.entries(sums).map(([name, sum]) => [name, String(sum)]);
  return { channel_id: ID, ...Object.fromEntries(digits), deposits } as ChannelRow;
};

/** Notes a channel as a request that reads it does. */
function read(newest: NewestVouchers, signed: bigint, deposits = 0) {
  newest.note(rowOf(signed, deposits), newest.version);
}

test("The next voucher of a channel that was read is known to be new", () => {
  const newest = new NewestVouchers();
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
  read(newest, 100n);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(true);
  expect(newest.isNext(ID, 100n, PRICE)).toBe(false);
});

test("A voucher that skips others is not known to be the next one, since it may show that some were lost", () => {
  const newest = new NewestVouchers();
  read(newest, 100n);
  expect(newest.isNext(ID, 120n, PRICE)).toBe(false);
});

test("A voucher that may have been taken is no longer new, and no later reading lowers it", () => {
  const newest = new NewestVouchers();
  read(newest, 100n);
  expect(newest.begin(ID, 110n, false)).toBeUndefined();
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
  read(newest, 100n);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
  expect(newest.isNext(ID, 120n, PRICE)).toBe(true);
});

test("A voucher above the deposits that were counted is not known to be the next one, until more of them are", () => {
  const newest = new NewestVouchers();
  newest.note(rowOf(100n, 0, 109n), newest.version);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
  newest.note(rowOf(100n, 0, 110n), newest.version);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(true);
});

test("A channel with an undecided deposit is read for each voucher, because its sums lack the deposit", () => {
  const newest = new NewestVouchers();
  read(newest, 100n, 1);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
});

test("A deposit makes a channel unknown until its purchase has ended", () => {
  const newest = new NewestVouchers();
  read(newest, 100n);
  const leave = newest.begin(ID, 110n, true);
  read(newest, 100n);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
  const before = newest.version;
  leave?.();
  newest.note(rowOf(100n), before);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
  read(newest, 110n);
  expect(newest.isNext(ID, 120n, PRICE)).toBe(true);
});

test("A row that was read before an unknown voucher began is not noted", () => {
  const newest = new NewestVouchers();
  const before = newest.version;
  newest.begin(ID, 110n, false)?.();
  newest.note(rowOf(100n), before);
  expect(newest.isNext(ID, 110n, PRICE)).toBe(false);
});

/** Counts how often terms read a channel. @param newest absent: other processes take vouchers, too */
function termsOf(newest: NewestVouchers | undefined) {
  let reads = 0;
  const findChannel = async () => {
    reads += 1;
    return rowOf(100n);
  };
  const terms = channelTerms({
    ledger: {
      ...{ findChannel, listUncounted: async () => [], countReturned: async () => 0 },
      findPaymentOfDeposit: async () => undefined,
    },
    journal: { findPaymentByFingerprint: async () => undefined },
    lost: { look: async () => undefined },
    canSign: () => true,
    newest,
  } as unknown as Parameters<typeof channelTerms>[0]);
  const recognise = (cumulative: bigint) => terms.recognise?.(paymentOf(cumulative));
  const take = (cumulative: bigint) =>
    terms.checks
      ?.find(({ name }) => name === "newest voucher")
      ?.run({ payment: paymentOf(cumulative) } as never);
  return { recognise, take, reads: () => reads };
}

function paymentOf(cumulative: bigint): SignedPayment {
  const config = {
    ...{ payer: ADDRESS, payerAuthorizer: ADDRESS, receiver: ADDRESS, receiverAuthorizer: ADDRESS },
    ...{ token: ADDRESS, withdrawDelay: 900, salt: `0x${"02".repeat(32)}` },
  };
  const details = { config, channelId: ID, cumulative, signature: "0x11", deposit: undefined };
  const payload = { accepted: { amount: String(PRICE) } };
  return { method: { name: "channel" }, payload, details } as unknown as SignedPayment;
}

test("A channel is read for its first voucher, and for a voucher that came before", async () => {
  const { recognise, take, reads } = termsOf(new NewestVouchers());
  expect(await recognise(110n)).toMatchObject({ isNew: true });
  await take(110n);
  expect(await recognise(120n)).toMatchObject({ isNew: true });
  await take(120n);
  expect(await recognise(130n)).toMatchObject({ isNew: true });
  expect(reads()).toBe(1);
  await recognise(120n);
  expect(reads()).toBeGreaterThan(1);
});

test("A channel is read for each voucher where other processes take vouchers as well", async () => {
  const { recognise, take, reads } = termsOf(undefined);
  for (const cumulative of [110n, 120n]) {
    await recognise(cumulative);
    await take(cumulative);
  }
  expect(reads()).toBe(2);
});

test("A voucher that was taken before is not said to be new", async () => {
  const { recognise } = termsOf(new NewestVouchers());
  expect(await recognise(100n)).not.toHaveProperty("isNew");
});
