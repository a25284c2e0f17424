import type { OneTimeNonce, PaymentIntent } from "../../../src/core/payment.ts";
import { ACCOUNT, NETWORK, newTransaction, signedTransaction } from "../store-fixtures.ts";
import type { Choices } from "./choices.ts";
import { JOB_IDS, OWNERS as KEY_OWNERS, KEYS } from "./intake-inputs.ts";
import { nonceOf } from "./ledger-inputs.ts";
import type { MakersOf } from "./makers.ts";
import type { Place, Ref } from "./steps.ts";
import type { World } from "./world.ts";

const REFUNDS = `${NETWORK}/refunds`;
/** Queues of transactions. */
export const NETWORKS = [NETWORK, REFUNDS, REFUNDS];
/** Processes that sign them. */
export const OWNERS = ["one", "one", "one", "other"];
const EVENTS = [
  ...[
    "payment.settled",
    "payment.unresolved",
    "refund.owed",
    "refund.sent",
    "refund.failed",
    "call.finished",
  ],
  "dead_letter",
];
const ENDPOINTS = ["https://ops.example.com/a", "https://ops.example.com/b", "http://10.0.0.1:99/c"];

/** Digests of quotes, and the end of the nonces that their payments use up. */
const DIGESTS = ["aa", "bb", "cc", "dd"].map((digits) => digits.repeat(32));
/** Postgres forgets quotes that have expired after it has read them, SQLite before. */
const LATER_THAN_ALL = 9_000_000_000_000;

/** Returns the nonce of the quote with a payment's receipt. */
export function quoteNonce(receipt: string): OneTimeNonce {
  return { key: `quote ${receipt}`, expiresAt: LATER_THAN_ALL / 1000, isOfCharge: true };
}

/** Name of a key that JobCalls have, or seldom of one that none has. */
const keyName = (choices: Choices) => ({
  owner: choices.one(KEY_OWNERS),
  key: choices.one([...KEYS, ...KEYS, "none"]),
});

const CHANNELS = ["a", "b", "c"].map((digit) => `0x${digit.repeat(64)}`);
const CHANNEL_AMOUNT = "1000";
const REQUESTS = ["1000:all", "2000:100"];
const PAUSABLE = [
  { kind: "job", key: "1/7" },
  { kind: "endpoint", key: "/hooks/a" },
  { kind: "api", key: "weather" },
];
const OPERATOR = { by: "ada", note: "as agreed" };

/** Returns a payment from a channel: its next voucher, or one that is too low or too high. */
export function inChannel({ choices }: World, intent: PaymentIntent): PaymentIntent {
  const channelId = choices.one(CHANNELS);
  const deposit = choices.maybe(40, () => ({ amount: choices.one(["500", "3000", "9000"]) }));
  const maxClaimableAmount = String(1_000 * choices.one([1, 1, 2, 2, 3, 4, 5, 6]));
  const voucher = { channelId, maxClaimableAmount, signature: choices.one(["0xA1", "0xb2"]) };
  const payload = { type: "voucher", channelConfig: { payer: intent.key.payer }, voucher, deposit };
  return {
    ...intent,
    transferMethod: "channel",
    settlement: choices.maybe(50, () => `{"transaction":""}`),
    amount: CHANNEL_AMOUNT,
    charge: "before",
    minCharge: undefined,
    chargesBack: choices.maybe(50, () => true as const),
    payload: JSON.stringify({ x402Version: 2, payload }),
  };
}

/** A channel as its chain may show it. */
function chainOf({ choices }: World): object {
  return {
    balance: choices.one(["0", "3000", "9000", "12000"]),
    totalClaimed: choices.one(["0", "0", "1000", "2000"]),
    refundNonce: choices.one(["0", "1", "2"]),
    withdrawAt: choices.percent(15) ? 1_800_000_000 : 0,
    block: choices.one([1, 5, 9]),
  };
}

/** Inputs of operations of parts. */
export const OF_PARTS: MakersOf<string> = {
  holdRefund(world) {
    const reason = world.choices.percent(40) ? "the chain does not show its payment" : world.text();
    return [world.call(world.dead), reason, { forOperator: world.choices.percent(40) }];
  },
  sendRefund(world) {
    const place = refunded(world);
    const attempt = world.choices.one([1, 1, 1, 2, 3]);
    const transaction = newTransaction(1, { network: REFUNDS, reference: referenceOf(place, attempt) });
    return [{ ref: "call", call: place }, attempt, transaction];
  },
  endRefund(world) {
    const { choices } = world;
    const place = refunded(world);
    const end = choices.weighted<() => unknown>([
      [3, () => ({ state: "sent", transaction: "0xsent", blockNumber: "99" })],
      [
        2,
        () => ({
          state: "failed",
          reason: world.text(),
          transaction: choices.maybe(50, () => "0xfailed"),
        }),
      ],
      [1, () => ({ state: "lost", reason: world.text(), transaction: "0xlost" })],
      [1, () => ({ state: "unsigned", reason: choices.maybe(50, () => world.text()) })],
    ]);
    return [{ ref: "call", call: place }, referenceOf(place, choices.one([1, 1, 1, 2, 3])), end()];
  },
  decideRefund: (world) => [
    world.call(world.dead),
    { as: world.choices.one(["approved", "approved", "declined"]), by: "ada", note: world.note() },
  ],
  listOpenRefunds: (world) => [
    NETWORK,
    {
      state: world.choices.one(["owed", "sending"]),
      limit: world.choices.one([2, 100]),
      after: world.choices.maybe(30, () => world.call(world.dead)),
    },
  ],
  countOpenRefunds: () => [],
  listRefunds: (world) => [
    {
      state: world.choices.maybe(50, () =>
        world.choices.one(["owed", "sending", "refunded", "refund_failed", "declined"]),
      ),
      limit: world.choices.one([2, 100]),
      before: world.choices.maybe(30, () => world.call(world.dead)),
    },
  ],

  findRefundStates: (world) => [[world.call(world.dead), world.call()]],

  listHeldKeys: ({ choices }) => [choices.one([1, 100]), choices.maybe(30, () => keyName(choices))],
  findKeyOf: (world) => [world.call()],
  findKeys({ choices }) {
    const { owner, key } = keyName(choices);
    return [{ owner, key: choices.one([key, key.slice(0, 1)]) }, choices.one([1, 20])];
  },
  findUsedLimit: ({ choices }) => [
    { jobId: choices.one([7n, 30n]), rate: { calls: choices.one([1, 3]), perMs: 1_000 } },
  ],
  findCallsOfKey: ({ choices }) => [keyName(choices)],
  pauseKey: ({ choices }) => [
    { ...keyName(choices), ...OPERATOR, note: choices.one(["", "why"]), refusesAccepts: choices.percent(20) },
  ],
  resumeKey: ({ choices }) => [keyName(choices)],
  countKeys: () => [],

  useCallbackEndpoints({ choices }) {
    const chosen = ENDPOINTS.filter(() => choices.percent(60));
    return [chosen.map((url) => ({ url, events: EVENTS.filter(() => choices.percent(70)) }))];
  },
  listDueCallbacks: ({ choices }) => [
    { hosts: choices.one([1, 10]), perHost: 1_000, after: choices.one(["", "", "buyer.example.com"]) },
  ],
  endCallback(world) {
    const { choices } = world;
    const [id, attempts] = callback(world);
    const outcome = choices.weighted<() => unknown>([
      [2, () => ({ kind: "sent" })],
      [1, () => ({ kind: "dead", reason: world.text() })],
      [3, () => ({ kind: "later", delayMs: choices.one([1_000, 260_000_000]), reason: world.text() })],
    ]);
    return [id, choices.percent(90) ? attempts : 1, outcome()];
  },
  retryCallback: (world) => [callback(world)[0]],
  listCallbacks: (world) => [
    {
      callId: world.call(),
      state: world.choices.maybe(50, () => world.choices.one(["pending", "sent", "dead"])),
      limit: 1_000,
    },
  ],

  listPaymentAlerts: ({ choices }) => [
    { kind: choices.maybe(50, () => choices.one(["charge_lost", "paid", "not_paid"])), limit: 1_000 },
  ],

  queueTransaction: ({ choices }) => [
    newTransaction(choices.below(12), { network: choices.percent(80) ? NETWORK : REFUNDS }),
  ],
  signTransactions(world) {
    const { choices } = world;
    const network = choices.one(NETWORKS);
    const count = choices.one([1, 1, 2, 3]);
    const gap = choices.one([1, 1, 1, 1, 2, 0]);
    const signed = Array.from({ length: count }, (_, index) => signature(world, network, gap + index));
    return [network, choices.one(OWNERS), signed];
  },
  finishTransactions(world) {
    const { choices } = world;
    const network = choices.one(NETWORKS);
    const references = Array.from({ length: choices.one([1, 2]) }, () => reference(world, network));
    return [network, choices.one(OWNERS), references.map((one) => ({ reference: one, ...end(world) }))];
  },
  findTransactions(world) {
    const network = world.choices.one(NETWORKS);
    return [network, [...new Set([reference(world, network), reference(world, network)])]];
  },
  listOpenTransactions: ({ choices }) => [
    choices.one(NETWORKS),
    { state: choices.one(["queued", "sent"]), limit: 1_000 },
  ],

  saveQuote({ choices }) {
    const expiresAt = LATER_THAN_ALL;
    return [{ digest: choices.one(DIGESTS), quote: `{"quote":${choices.below(100)}}`, expiresAt }];
  },
  findQuote: ({ choices }) => [choices.one(DIGESTS)],

  addTask(world) {
    const { key, expiresAt } = nonceOf(world);
    return [key, world.call(), expiresAt];
  },
  findTask: (world) => [nonceOf(world).key],

  findChannel: ({ choices }) => [choices.one(CHANNELS)],
  findCharge: (world) => [world.call()],
  findPaymentOfCall: (world) => [world.call()],
  countReturned: ({ choices }) => [choices.one(CHANNELS), String(1_000 * choices.one([1, 2, 3]))],
  listChannels: ({ choices }) => [
    NETWORK,
    { after: choices.one(["", ...CHANNELS]), limit: choices.one([1, 100]) },
  ],
  listDueChannels: ({ choices, now }) => [
    NETWORK,
    {
      isUrgent: choices.percent(50),
      after: choices.maybe(50, () => ({
        dueSince: now - choices.one([0, 1_000]),
        channelId: choices.one(CHANNELS),
      })),
      limit: choices.one([1, 100]),
    },
  ],
  listRefunding: ({ choices }) => [NETWORK, choices.one([1, 100])],
  listUncounted: (world) => [
    {
      channelId: world.choices.maybe(50, () => world.choices.one(CHANNELS)),
      after: world.choices.maybe(30, () => ({
        channelId: world.choices.one(CHANNELS),
        callId: world.call(),
      })),
      limit: world.choices.one([2, 1_000]),
    },
  ],
  countCharges: (world) => [
    world.choices.one(CHANNELS),
    {
      callIds: Array.from({ length: world.choices.one([1, 5]) }, () => world.call()),
      succeeded: Array.from({ length: world.choices.below(3) }, () => world.call()),
      next: world.choices.maybe(50, () => world.call()),
    },
  ],
  makeFinal: (world) => [
    world.choices.one(CHANNELS),
    Array.from({ length: world.choices.one([1, 5]) }, () => world.call()),
  ],
  askClaims: ({ choices }) => [choices.percent(50) ? [choices.one(CHANNELS)] : CHANNELS],
  seeChannel: (world) => [world.choices.one(CHANNELS), chainOf(world)],
  adoptChannel: (world) => [
    {
      ...{
        channel_id: world.choices.one(CHANNELS),
        network: NETWORK,
        asset: "0xa",
        symbol: "USDC",
        decimals: 6,
      },
      ...{ config: "{}", signed: "1000", signature: "0xa1" },
    },
    {
      ...chainOf(world),
      ...(world.choices.percent(80) && { totalClaimed: "0", refundNonce: "0", withdrawAt: 0 }),
    },
  ],
  beginChannelRefund: (world) => [
    world.choices.one(CHANNELS),
    {
      ...{ chain: chainOf(world), request: world.choices.maybe(70, () => world.choices.one(REQUESTS)) },
      amount: world.choices.maybe(50, () => world.choices.one(["100", "99999"])),
    },
  ],
  endChannelRefund: (world) => [
    world.choices.one(CHANNELS),
    chainOf(world),
    world.choices.maybe(50, () => "0xpaid"),
    world.choices.maybe(70, () => world.choices.one(REQUESTS)),
  ],
  findPaymentOfDeposit: ({ choices }) => [choices.one(CHANNELS), String(1_000 * choices.one([1, 2, 3]))],
  findPaymentsOfVoucher: ({ choices }) => [choices.one(CHANNELS), String(1_000 * choices.one([1, 2, 3]))],
  findChannelRefund: ({ choices }) => [choices.one(CHANNELS), choices.one(REQUESTS)],

  listChannelsByAge: ({ choices, now }) => [
    {
      status: choices.maybe(50, () => choices.one(["open", "refunding", "withdrawing", "stopped"])),
      after: choices.maybe(50, () => ({ createdAt: now, channelId: choices.one(CHANNELS) })),
      limit: choices.one([1, 100]),
    },
  ],
  listOpenCharges: ({ choices }) => [choices.one(CHANNELS), choices.one([1, 100])],
  listChannelDecisions: ({ choices }) => [choices.one(CHANNELS), choices.one([1, 100])],
  listDueIds: ({ choices }) => [{ after: choices.one(["", ...CHANNELS]), limit: choices.one([1, 100]) }],
  countOwedChannels: () => [],
  claimSoon: ({ choices }) => [choices.percent(50) ? [choices.one(CHANNELS)] : CHANNELS, OPERATOR],
  refundByOperator: (world) => [world.choices.one(CHANNELS), chainOf(world), OPERATOR],
  resumeChannels: (world) => [
    CHANNELS.slice(0, 2).map((channelId) => ({ channelId, chain: chainOf(world) })),
    OPERATOR,
  ],

  findBody: (world) => [world.call(), world.choices.one([2, 100])],
  findAccepted: (world) => [world.call()],
  findResent: ({ choices }) => [choices.one(["resend a", "resend b"])],

  searchPositions: () => [],
  listUnindexed: ({ choices, now }) => [
    choices.one(["calls", "settled"]),
    { at: now - choices.one([0, 60_000, 100_000_000]), entry: 0 },
    choices.one([0, 60_000]),
  ],
  addSearchTerms(world) {
    const { choices } = world;
    const terms = Array.from({ length: choices.one([1, 3]) }, () => ({
      kind: choices.one(["transaction", "purchase_name", "metadata"]),
      term: choices.one(["0xab", "abc", "abd", "ünï"]),
      entry: world.call(),
    }));
    const position = { at: world.now, entry: world.call() };
    const moved = { source: choices.one(["calls", "settled", "refused"]), position };
    return [terms, choices.percent(50) ? [moved] : []];
  },
  findForgotten: () => [0],
  forgetSearchTerms: () => [0],
  search: ({ choices }) => [choices.one(["ab", "0x", "0xAB", "no such text", "ünï"])],

  savePause: ({ choices }) => [
    {
      ...choices.one(PAUSABLE),
      jobIds: choices.one([[], [7n], [7n, 30n]]),
      refusesAccepts: choices.percent(50),
      by: "ada",
      note: choices.one(["", "ünï"]),
    },
  ],
  endPause: ({ choices }) => [choices.one(PAUSABLE)],
  listPauses: () => [],

  reserveJobs: ({ choices }) => [choices.one([[7n], [30n], [8n, 7n, 7n]])],
  releaseJobs: ({ choices }) => [choices.one([[7n], [8n, 30n], JOB_IDS])],
  listReservedJobs: () => [],

  sumMovements({ choices, now }) {
    const today = Math.floor(now / 86_400_000);
    const from = today - choices.one([0, 1, 30]);
    return [{ from, to: today + choices.one([0, 1]), by: choices.one(["token", "network", "job", "day"]) }];
  },
  listMovements({ choices, now }) {
    const at = now - choices.one([1_000, 60_000, 100_000_000]);
    return [{ after: { at, id: 0 }, until: now + choices.one([0, 1]), limit: choices.one([3, 100]) }];
  },
};

/** A dead letter, whose refund may be owed. */
function refunded({ choices, dead }: World): Place {
  return choices.recent(dead) ?? "0.0";
}

/** Reference of a refund's transaction, in the one or the other letter case. */
function referenceOf(place: Place, attempt: number): string {
  return `0xRefund-${place}-${attempt}`;
}

/** Reference of a transaction that may be queued or signed. */
function reference(world: World, network: string): string {
  const { choices } = world;
  const signed = choices.recent(world.signed);
  if (signed?.network === network && choices.percent(60)) return signed.reference;
  if (network === REFUNDS && choices.percent(80)) return referenceOf(refunded(world), choices.one([1, 1, 2]));
  return newTransaction(choices.below(12)).reference;
}

function signature(world: World, network: string, distance: number) {
  const { choices } = world;
  const replaced = choices.percent(25) ? choices.recent(world.signed) : undefined;
  const hash = `0xHash${world.nextNumber()}`;
  if (replaced?.network === network) {
    const { reference, nonce, hash: replaces } = replaced;
    return { ...signedTransaction(1, nonce), reference, hash, replaces };
  }
  const nonce = (world.nonces.get(network) ?? 0) + distance;
  const account = choices.percent(90) ? ACCOUNT : ACCOUNT.toUpperCase();
  return { ...signedTransaction(1, nonce), account, reference: reference(world, network), hash };
}

function end(world: World): object {
  const { choices } = world;
  const fee = choices.maybe(70, () => "21000000000000");
  return choices.weighted<() => object>([
    [3, () => ({ state: "succeeded", hash: "0xMined", blockNumber: "55", fee })],
    [1, () => ({ state: "reverted", hash: "0xMined", blockNumber: "56", fee })],
    [1, () => ({ state: "dropped", reason: world.text() })],
    [1, () => ({ state: choices.one(["sent", "queued"]) })],
  ])();
}

/** One of a JobCall's callbacks, with its attempts. */
function callback({ choices, calls }: World): [Ref, Ref] {
  const of = { call: choices.recent(calls) ?? "0.0", index: choices.below(4) } as const;
  return [
    { ref: "callback", ...of },
    { ref: "attempts", ...of },
  ];
}
