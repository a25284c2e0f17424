import type { PaymentIntent, PaymentKey } from "../../../src/core/payment.ts";
import { NETWORK, paymentIntent } from "../store-fixtures.ts";
import { listFilter, newPaidCall, PAYERS } from "./intake-inputs.ts";
import { nonceOf } from "./ledger-inputs.ts";
import type { MakersOf } from "./makers.ts";
import { inChannel, quoteNonce } from "./part-inputs.ts";
import type { World } from "./world.ts";

const ASSETS = ["0x036cbd53842c5426634e7929541ec2318f3dcf7e", "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"];
const NOTES = ["https://buyer.example.com/hook", "http://other.example.com:8080/hook?a=1"].flatMap((url) => [
  { "Callback-URL": url },
  { "Callback-URL": url, "X-Other": "\u20ac" },
  { "Callback-URL": undefined, "X-Other": url },
]);
const AMOUNTS = ["1000", "3264000", "18446744073709551615"];

/** Inputs of operations on payments. */
export const PAYMENTS: MakersOf<
  | "beginPayment"
  | "settlePayment"
  | "finalizePayment"
  | "failPayment"
  | "leavePaymentUnresolved"
  | "confirmPayment"
  | "closePayment"
  | "contradictPayment"
  | "endWatches"
  | "findPayment"
  | "findPaymentByFingerprint"
  | "findPaymentByPurchaseName"
  | "isNonceUsed"
  | "hasLoss"
  | "listUndecided"
  | "listPayments"
  | "adoptPayment"
  | "findAdoptedPayments"
> = {
  beginPayment(world) {
    const { choices, now } = world;
    const intent = choices.percent(25) ? inChannel(world, newIntent(world)) : newIntent(world);
    const limits = choices.maybe(35, () => ({
      maxUndecided: choices.one([3, 1_000, 1_000]),
      maxOpenPerPayer: choices.one([3, 1_000, 1_000]),
      ...choices.maybe(50, () => ({
        funds: choices.one(["1500", "10000000", "40000000000000000000"]),
        // The same for all that are asked for at once: Postgres takes the longest of a batch.
        fundsAgeMs: [0, 1_000, 20_000][(now / 1_000) % 3],
      })),
    }));
    return [intent, newPaidCall(world, intent.jobIndex, intent.serviceId), limits];
  },
  settlePayment(world) {
    const { choices } = world;
    const amount = choices.maybe(20, () => choices.one(["1", "1000"]));
    const isEarly = choices.maybe(40, () => true);
    return [payment(world), settlement(world, true), choices.maybe(50, () => "123"), amount, isEarly];
  },
  finalizePayment: (world) => [payment(world), world.choices.maybe(50, () => "124")],
  failPayment: (world) => [payment(world), settlement(world, false), world.text()],
  leavePaymentUnresolved: (world) => [payment(world), world.text()],
  confirmPayment: (world) => [payment(world), world.choices.one(["intent", "settling", "settled"])],
  closePayment: (world) => [
    payment(world),
    { as: world.choices.one(["paid", "not_paid"]), by: "ada", note: world.note() },
  ],
  contradictPayment: (world) => [
    payment(world),
    world.text(),
    world.choices.maybe(40, () => settlement(world, false)),
  ],
  endWatches: () => [],

  findPayment(world) {
    const key = payment(world);
    return [world.choices.percent(20) ? { ...key, nonce: key.nonce.toUpperCase() } : key];
  },
  findPaymentByFingerprint: (world) => [`fingerprint-${numberOf(world)}`],
  findPaymentByPurchaseName: ({ choices }) => [{ payer: choices.one(PAYERS), name: name(choices.below(5)) }],
  isNonceUsed: (world) => [nonceOf(world)],
  hasLoss: ({ choices }) => [choices.one(PAYERS)],
  listUndecided: (world) => [
    {
      state: world.choices.one(["intent", "settling", "unresolved", "watched", "early"]),
      limit: world.choices.one([2, 1_000]),
      after: world.choices.maybe(30, () => world.call()),
    },
  ],
  listPayments: (world) => [
    {
      ...listFilter(world),
      state: world.choices.maybe(50, () =>
        world.choices.one([
          ...(["intent", "settled", "failed", "unresolved", "authorized", "settling", "released"] as const),
        ]),
      ),
    },
  ],
  adoptPayment(world) {
    const { choices } = world;
    const key = choices.percent(60) ? keyOf(world, numberOf(world) + 3) : payment(world);
    const by = { by: choices.one(["ada", "bob"]), note: world.note() };
    const seen = {
      payTo: "0xseller",
      amount: choices.one(AMOUNTS),
      transaction: "0xfeed",
      blockNumber: "77",
    };
    return [{ key, transferMethod: "eip3009", ...seen, ...by }];
  },
  findAdoptedPayments: (world) => [keyOf(world, numberOf(world) + 3)],
};

/** Number of a recent payment. */
function numberOf({ choices, payments }: World): number {
  return choices.recent(payments)?.number ?? 1;
}

/** Key of a payment that was begun; seldom of one that was not. */
function payment(world: World): PaymentKey {
  const { choices, payments } = world;
  const known = choices.percent(96) ? choices.recent(payments) : undefined;
  return known?.key ?? keyOf(world, 1_000_000);
}

/** The payer and the asset follow from the number, so that the same key can be made again. */
function keyOf(_world: World, number: number): PaymentKey {
  const { key } = paymentIntent(number);
  return { ...key, payer: PAYERS[number % 3] ?? key.payer, asset: ASSETS[number % 2] ?? key.asset };
}

function name(number: number): string {
  return `purchase-${number}`;
}

function newIntent(world: World): PaymentIntent & { readonly number: number } {
  const { choices, now } = world;
  const number = choices.percent(88) ? world.nextNumber() : numberOf(world);
  const other = choices.percent(3) ? numberOf(world) : number;
  const amount = choices.one(AMOUNTS);
  const charge = choices.percent(40) ? choices.one(["after", "used", "used"] as const) : "before";
  const key = keyOf(world, number);
  const receipt = choices.one(["aa", "bb", "cc", "dd"]).repeat(32);
  const nonces = [
    choices.maybe(25, () => nonceOf(world)) ?? [],
    choices.maybe(20, () => quoteNonce(receipt)) ?? [],
  ].flat();
  return {
    ...paymentIntent(other),
    number,
    key,
    serviceId: choices.one([1n, 2n ** 64n - 1n]),
    jobIndex: choices.one([7, 8]),
    x402Version: choices.one([1, 2]),
    facilitator: choices.maybe(80, () => "facilitator.example.com/x402"),
    amount,
    symbol: key.asset === ASSETS[0] ? "USDC" : "EURC",
    validBefore: Math.floor(now / 1_000) + choices.one([5, 70, 300, 3_600]),
    purchaseName: choices.maybe(25, () => name(choices.below(5))),
    receipt,
    fromBlock: choices.maybe(80, () => "12345678901234567890"),
    ...(nonces.length > 0 && { oneTimeNonces: nonces }),
    onFailure: choices.maybe(65, () => choices.one(["refund", "ask"] as const)),
    charge,
    minCharge: charge === "used" ? choices.maybe(50, () => choices.one(["0", "10", "999999999"])) : undefined,
    boundHeaders: choices.maybe(20, () => choices.one(["content-type", "accept,content-type"])),
    notes: choices.maybe(50, () => choices.one(NOTES)),
  };
}

function settlement({ choices }: World, success: boolean): string {
  const transaction = choices.one(["", "0xabc", "0xdef"]);
  const moved = choices.maybe(30, () => ({ amount: "5" }));
  return JSON.stringify({ success, transaction, network: NETWORK, payer: "0xpayer", ...moved });
}
