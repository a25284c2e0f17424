import type { OneTimeNonce } from "../../../src/core/payment.ts";
import { REFUSED_AT_ONCE } from "../../../src/store/contract/refused-payments.ts";
import { oneTimeNonce } from "../store-fixtures.ts";
import { JOB_IDS, PAYERS } from "./intake-inputs.ts";
import type { MakersOf } from "./makers.ts";
import { NETWORKS, OWNERS } from "./part-inputs.ts";
import type { World } from "./world.ts";

/*
 * A write forgets at least ten entries of its kind that have expired, and the stores differ in how many more. The entries
 * here have at most ten keys, so that both stores forget the same ones.
 */

const OFFERS = [1, 2, 3, 4, 5, 6];
const CODES = ["payment_invalid", "payment_insufficient", "queue_full"];

/** Inputs of operations on small ledgers, of reports and of retention. */
export const LEDGERS: MakersOf<
  | "saveOffers"
  | "findOffers"
  | "keepSecret"
  | "holdLock"
  | "useNonce"
  | "saveRefusedPayments"
  | "listRefusedPayments"
  | "countRefusedPayments"
  | "totals"
  | "revenue"
  | "countWaiting"
  | "prune"
  | "forgetResult"
  | "shrink"
  | "probe"
> = {
  saveOffers({ choices }) {
    const validForMs = choices.one([1_000, 2_000, 60_000, 3_600_000]);
    return [OFFERS.filter(() => choices.percent(40)).map((number) => ({ ...offer(number), validForMs }))];
  },
  findOffers: ({ choices }) => [job(choices.below(2))],
  keepSecret: ({ choices }) => [choices.one(["tokens", "other"]), `secret-${choices.below(1_000)}`],
  holdLock: ({ choices }) => [
    choices.one([...NETWORKS, "other"]),
    choices.one(OWNERS),
    choices.one([0, 5_000, 600_000, 600_000]),
  ],
  useNonce: (world) => [nonceOf(world)],

  saveRefusedPayments(world) {
    const { choices, now } = world;
    const count = choices.percent(2) ? REFUSED_AT_ONCE : choices.below(4);
    return [Array.from({ length: count }, () => refused(world, now - choices.one([0, 5_000])))];
  },
  listRefusedPayments({ choices }) {
    const filter = {
      limit: choices.one([1, 10]),
      serviceId: choices.maybe(20, () => 1n),
      jobIndex: choices.maybe(20, () => choices.below(2)),
      payer: choices.maybe(20, () => choices.one(PAYERS)),
      code: choices.maybe(20, () => choices.one(CODES)),
      requestId: choices.maybe(20, () => `request-${choices.below(20)}`),
    };
    return [filter];
  },

  countRefusedPayments: () => [],

  totals: () => [],
  revenue: ({ choices, now }) => [
    {
      since: now - choices.one([0, 1_000, 3_600_000, 100_000_000]),
      bucketMs: choices.one([60_000, 3_600_000, 86_400_000]),
    },
  ],
  countWaiting: ({ choices }) => [
    {
      kind: choices.one(["only", "except"]),
      jobIds: [...JOB_IDS, 0n, 1n, 7n, 8n].filter(() => choices.percent(40)),
    },
  ],
  prune(world) {
    const { choices } = world;
    const after = choices.percent(80) ? 0 : world.call();
    const ageMs = choices.one([0, 60_000, 86_400_000]);
    return [{ kind: choices.one(["results", "calls", "payments"]), ageMs, after }];
  },
  forgetResult: (world) => [world.call()],
  shrink: () => [],
  probe: () => [],
};

const job = (jobIndex: number) => ({ serviceId: 1n, jobIndex });

/** An ID says what its offer is. */
function offer(number: number) {
  return { id: `offer-${number}`, job: job(number % 2), offer: `{"offer":${number}}` };
}

/** One nonce of six, which end at different times. */
export function nonceOf({ choices, now }: World): OneTimeNonce {
  const expiresAt = Math.floor(now / 1_000) + choices.one([0, 3, 60, 3_600]);
  return oneTimeNonce(`nonce-${choices.below(6)}`, expiresAt);
}

function refused(world: World, at: number) {
  const { choices } = world;
  const payment = { payer: choices.one(PAYERS), network: "eip155:84532", amount: "5" };
  return {
    at,
    requestId: `request-${choices.below(20)}`,
    serviceId: choices.one([1n, 2n ** 64n - 1n]),
    jobIndex: choices.below(2),
    code: choices.one(CODES),
    message: world.note(),
    reason: choices.maybe(50, () => world.text()),
    payment: choices.maybe(70, () => payment),
  };
}
