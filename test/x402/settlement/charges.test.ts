import { pino } from "pino";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { EventHub, type GatewayEvent } from "../../../src/core/events.ts";
import type { PaymentIntent, PaymentRecord } from "../../../src/core/payment.ts";
import { AUTHORIZATION_ENDED } from "../../../src/store/rules/charges.ts";
import type { Store } from "../../../src/store/store.ts";
import { EIP3009_METHOD } from "../../../src/x402/methods/eip3009.ts";
import { Charges } from "../../../src/x402/settlement/charges.ts";
import type { PaymentOutcome } from "../../../src/x402/settlement/payment-outcome.ts";
import { openTestStore } from "../../helpers/test-store.ts";
import { claimCalls, claimOne, paidCall, paymentIntent, START_MS } from "../../store/store-fixtures.ts";

const MARGIN_SECS = 60;
/** Bounds of a method whose payments expire soon. */
const SOON = { maxRunSecs: 20, marginSecs: 15 };
/** Unix milliseconds at which the authorizations end. */
const ENDS_AT = paymentIntent(1).validBefore * 1_000;
const UNDECIDED: PaymentOutcome = { kind: "undecided" };

const metered = (number: number) =>
  paymentIntent(number, { amount: "1001", charge: "used", minCharge: "10" });

/** The event of a charge that was decided. */
const chargeOf = (callId: number): GatewayEvent => {
  const amount = { network: "eip155:1", asset: "0x1", symbol: "USDC", amount: "1001", payer: "0x2" };
  return { at: 0, callId, what: { kind: "paymentDecided", state: "settling", reason: "", ...amount } };
};

/** Charges that are begun, in order, and what the next ones come to. */
interface Settling {
  hasMoved: boolean;
  /** The payment that the settlement remembers. */
  remembered: { record: PaymentRecord; fundsSeenAt: number | undefined } | undefined;
  readonly asked: string[];
  charge(record: PaymentRecord): Promise<PaymentOutcome>;
}

let charges: Charges | undefined;
afterEach(async () => {
  await charges?.stop();
  charges = undefined;
});

async function harness() {
  const opened = await openTestStore({ clock: () => START_MS });
  onTestFinished(async () => {
    await charges?.stop();
    charges = undefined;
    await opened.stop();
  });
  const { store } = opened;
  const messages: string[] = [];
  const logger = pino(
    { level: "debug" },
    { write: (line: string) => void messages.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const settling: Settling = {
    asked: [],
    hasMoved: false,
    remembered: undefined,
    charge: async () => UNDECIDED,
  };
  const times = { elapsedMs: 0, now: START_MS, rounds: 0 };
  const events = new EventHub();
  const settle = async (record: PaymentRecord): Promise<PaymentOutcome> => {
    await store.settlePayment(record.key, "{}");
    return UNDECIDED;
  };

  async function start({
    journal = store,
    roundMs = 5,
  }: {
    readonly journal?: Store;
    readonly roundMs?: number;
  } = {}): Promise<Charges> {
    charges = new Charges({
      journal: {
        ...journal,
        listEndingAuthorizations(...asked) {
          times.rounds++;
          return journal.listEndingAuthorizations(...asked);
        },
      },
      settlement: {
        charge(record) {
          settling.asked.push(record.fingerprint);
          return settling.charge(record);
        },
        noteCharge: () => settling.remembered?.record,
        findRunning: () => settling.remembered,
        forgetRunning: () => {
          settling.remembered = undefined;
        },
        mayHaveMoved: async () => settling.hasMoved,
      },
      methods: { find: (name) => (name === "soon" ? { ...EIP3009_METHOD, endsSoon: SOON } : undefined) },
      funds: { findShortfall: async ({ fingerprint }) => `${fingerprint} is short` },
      events,
      roundMs,
      firstDelayMs: 1_000,
      elapsed: () => times.elapsedMs,
      clock: () => times.now,
      logger,
      settleMarginSecs: MARGIN_SECS,
    });
    await charges.start();
    return charges;
  }

  /** Resolves after a round that began after the call. */
  async function wholeRound(): Promise<void> {
    const before = times.rounds;
    await expect.poll(() => times.rounds, { interval: 5 }).toBeGreaterThanOrEqual(before + 2);
  }

  const begin = async (number: number, more: Partial<PaymentIntent> = {}): Promise<number> => {
    const begun = await store.beginPayment({ ...metered(number), ...more }, paidCall());
    if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
    return begun.callId;
  };
  /** Begins payments and acks their jobs. */
  const acked = async (...numbers: number[]): Promise<void> => {
    for (const number of numbers) await begin(number);
    const calls = await claimCalls(store, { limit: numbers.length });
    await Promise.all(calls.map((lease) => store.ack(lease)));
  };
  const stateOf = async (number: number) => (await store.findPayment(metered(number).key))?.state;
  const asked = () => expect.poll(() => settling.asked, { interval: 5 });
  return {
    store,
    events,
    settling,
    settle,
    times,
    messages,
    start,
    wholeRound,
    begin,
    acked,
    stateOf,
    asked,
  };
}

it("Settles what was acked, each charge once", async () => {
  const { settling, settle, acked, start, wholeRound, asked, stateOf } = await harness();
  settling.charge = settle;
  await acked(1, 2);
  await start();
  await asked().toEqual(["fingerprint-1", "fingerprint-2"]);
  await wholeRound();
  expect(settling.asked).toHaveLength(2);
  expect([await stateOf(1), await stateOf(2)]).toEqual(["settled", "settled"]);
});

/** A journal whose first list of charges arrives once `goOn` was called. */
function heldList(store: Store) {
  let goOn = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const counts = { lists: 0 };
  const journal: Store = {
    ...store,
    async listUndecided(filter) {
      const found = await store.listUndecided(filter);
      counts.lists++;
      await held;
      return found;
    },
  };
  return { journal, goOn, counts };
}

/** Waits for whole rounds of others, of at least 20 ms each. */
async function othersGoOn(): Promise<void> {
  const others = await harness();
  const own = charges;
  const started = await others.start({ roundMs: 20 });
  await others.wholeRound();
  await started.stop();
  charges = own;
}

it("An ack is settled at once, also one during a round, which ends first", async () => {
  const { store, events, acked, start, asked } = await harness();
  const { journal, goOn, counts } = heldList(store);
  const ack = async (number: number) => {
    await acked(number);
    events.emit(chargeOf(number));
  };
  await start({ journal, roundMs: 3_600_000 });
  await expect.poll(() => counts.lists).toBe(1);
  await ack(1);
  await othersGoOn();
  expect(counts.lists).toBe(1);
  goOn();
  await asked().toEqual(["fingerprint-1"]);
  await ack(2);
  await asked().toEqual(["fingerprint-1", "fingerprint-2"]);
});

it("A charge whose payment is remembered begins at once, beside a round, and once", async () => {
  const { store, events, settling, acked, start, wholeRound } = await harness();
  const { journal, goOn, counts } = heldList(store);
  await start({ journal });
  await expect.poll(() => counts.lists).toBe(1);
  await acked(1);
  const record = await store.findPayment(metered(1).key);
  if (record !== undefined) settling.remembered = { record, fundsSeenAt: undefined };
  events.emit(chargeOf(1));
  await expect.poll(() => settling.asked).toEqual(["fingerprint-1"]);
  expect(counts.lists).toBe(1);
  goOn();
  await wholeRound();
  expect(settling.asked).toHaveLength(1);
});

it("A charge whose payment is remembered is left to the replica that charges", async () => {
  const { store, events, settling, acked, start } = await harness();
  await store.holdLock("charges", "another", 10_000);
  await start();
  await acked(1);
  const record = await store.findPayment(metered(1).key);
  if (record !== undefined) settling.remembered = { record, fundsSeenAt: undefined };
  events.emit(chargeOf(1));
  await othersGoOn();
  expect(settling.asked).toEqual([]);
});

it("Stopping waits for the round, which begins no charge any more", async () => {
  const { store, settling, acked, start } = await harness();
  await acked(1);
  const { journal, goOn, counts } = heldList(store);
  const started = await start({ journal });
  await expect.poll(() => counts.lists).toBe(1);
  let isStopped = false;
  const stopping = started.stop().then(() => {
    isStopped = true;
  });
  await othersGoOn();
  expect(isStopped).toBe(false);
  goOn();
  await stopping;
  expect(settling.asked).toEqual([]);
});

it("A charge that is not decided is tried again after 1 s, then after twice as long each time, at most 30 s", async () => {
  const { settling, acked, start, wholeRound, times, asked } = await harness();
  await acked(1);
  await start();
  await asked().toHaveLength(1);
  let expected = 1;
  for (const delaySecs of [1, 2, 4, 8, 16, 30, 30]) {
    await wholeRound();
    times.elapsedMs += delaySecs * 1_000 - 1;
    await wholeRound();
    expect(settling.asked).toHaveLength(expected);
    times.elapsedMs += 1;
    await asked().toHaveLength(++expected);
  }
});

it("A charge in progress is not begun again, and stopping waits for it", async () => {
  const { settling, acked, start, wholeRound, times, asked } = await harness();
  let answer = () => {};
  settling.charge = () =>
    new Promise((resolve) => {
      answer = () => resolve(UNDECIDED);
    });
  await acked(1);
  const started = await start();
  await asked().toHaveLength(1);
  times.elapsedMs += 3_600_000;
  await wholeRound();
  expect(settling.asked).toHaveLength(1);
  let isStopped = false;
  const stopping = started.stop().then(() => {
    isStopped = true;
  });
  await othersGoOn();
  expect(isStopped).toBe(false);
  answer();
  await stopping;
});

it("At most 256 charges are in progress", async () => {
  const { settling, acked, start, wholeRound, asked } = await harness();
  const answers: (() => void)[] = [];
  settling.charge = () => new Promise((resolve) => answers.push(() => resolve(UNDECIDED)));
  await acked(...Array.from({ length: 258 }, (_, number) => number));
  await start();
  await asked().toHaveLength(256);
  await wholeRound();
  expect(settling.asked).toHaveLength(256);
  settling.charge = async () => UNDECIDED;
  for (const answer of answers) answer();
  await asked().toHaveLength(258);
});

it("A charge that was decided after it was listed is left alone", async () => {
  const { store, settling, settle, acked, start, wholeRound } = await harness();
  await acked(1);
  const listUndecided: Store["listUndecided"] = async (filter) => {
    const found = await store.listUndecided(filter);
    for (const record of found) await settle(record);
    return found;
  };
  await start({ journal: { ...store, listUndecided } });
  await wholeRound();
  expect(settling.asked).toEqual([]);
});

it("An error of one charge, or of the journal, is logged and tried again", async () => {
  const { store, settling, settle, acked, start, wholeRound, times, asked, messages } = await harness();
  await acked(1);
  settling.charge = () => Promise.reject(new Error("no answer"));
  let fails = true;
  const listUndecided: Store["listUndecided"] = (filter) =>
    fails ? Promise.reject(new Error("disk full")) : store.listUndecided(filter);
  await start({ journal: { ...store, listUndecided } });
  await wholeRound();
  expect(messages).toContain("could not charge; trying again");
  fails = false;
  await asked().toHaveLength(1);
  await expect.poll(() => messages).toContain("could not settle a charge; trying again");
  settling.charge = settle;
  await wholeRound();
  expect(settling.asked).toHaveLength(1);
  times.elapsedMs += 1_000;
  await asked().toHaveLength(2);
});

it("Ends authorizations when the margin begins, which a reload can change: jobs that run are charged, others are not run", async () => {
  const { store, settling, begin, start, wholeRound, times, stateOf, asked, messages } = await harness();
  await begin(1);
  await claimOne(store);
  await begin(2);
  times.now = ENDS_AT - MARGIN_SECS * 1_000 - 1_000;
  const started = await start();
  await wholeRound();
  expect([await stateOf(1), await stateOf(2)]).toEqual(["authorized", "authorized"]);
  started.reload(MARGIN_SECS + 2);
  await asked().toEqual(["fingerprint-1"]);
  expect(await store.findPayment(metered(1).key)).toMatchObject({ state: "settling", amount: "10" });
  expect(await store.findPayment(metered(2).key)).toMatchObject({ state: "released", amount: "0" });
  expect(messages.filter((message) => message.startsWith("a paid job was not run"))).toEqual([
    `a paid job was not run: ${AUTHORIZATION_ENDED}`,
  ]);
  await wholeRound();
  expect(settling.asked).toHaveLength(1);
});

it("Ends more authorizations in one round than in one step", async () => {
  const { store, begin, start, times } = await harness();
  await Promise.all(Array.from({ length: 203 }, (_, number) => begin(number)));
  times.now = ENDS_AT;
  await start({ roundMs: 3_600_000 });
  await expect
    .poll(async () => (await store.totals()).deferred)
    .toMatchObject({ authorized: 0, released: 203 });
});

it("Ends an authorization of a method whose payments expire soon by the margin of the method", async () => {
  const { store, begin, start, times, wholeRound } = await harness();
  await begin(1, { transferMethod: "soon" });
  await begin(2);
  times.now = ENDS_AT - SOON.marginSecs * 1_000;
  await start({ roundMs: 5 });
  await wholeRound();
  expect((await store.totals()).deferred).toMatchObject({ authorized: 1, released: 1 });
  times.now += 1_000;
  await expect.poll(async () => (await store.totals()).deferred).toMatchObject({ released: 2 });
});

it("Ends each authorization once in a round, also behind payments whose JobCalls the store lacks", async () => {
  const { store, begin, start, times } = await harness();
  await Promise.all(Array.from({ length: 450 }, (_, number) => begin(number)));
  const listed = await store.listEndingAuthorizations(ENDS_AT / 1_000 + 1, 410);
  const lacking = new Set(listed.slice(0, 405).map(({ callId }) => callId));
  const tries = new Map<number, number>();
  const journal: Store = {
    ...store,
    async endAuthorization(callId) {
      tries.set(callId, (tries.get(callId) ?? 0) + 1);
      return lacking.has(callId) ? { kind: "not_open" } : store.endAuthorization(callId);
    },
  };
  times.now = ENDS_AT;
  await start({ journal, roundMs: 3_600_000 });
  await expect.poll(async () => (await store.totals()).deferred).toMatchObject({ released: 45 });
  // Its stop waits for the round.
  await charges?.stop();
  expect([tries.size, new Set(tries.values())]).toEqual([450, new Set([1])]);
});

it("Of several replicas, one charges, and the next one when it stops", async () => {
  const { store, settling, acked, start, wholeRound, asked } = await harness();
  const journal = { ...store, isShared: true };
  await store.holdLock("charges", "another", 10_000);
  await acked(1);
  const started = await start({ journal });
  // It lists nothing without the right.
  await expect.poll(() => store.holdLock("charges", "another", 10_000)).toBe(true);
  expect(settling.asked).toEqual([]);
  await store.holdLock("charges", "another", 0);
  await asked().toHaveLength(1);
  await wholeRound();
  expect(await store.holdLock("charges", "another", 10_000)).toBe(false);
  await started.stop();
  expect(await store.holdLock("charges", "another", 10_000)).toBe(true);
});

it("Does nothing after it has stopped", async () => {
  const { events, settling, acked, start, wholeRound, times } = await harness();
  const started = await start();
  await wholeRound();
  await started.stop();
  const { rounds } = times;
  await acked(1);
  events.emit(chargeOf(1));
  expect(events.watches("paymentDecided")).toBe(false);
  await othersGoOn();
  expect(times.rounds).toBe(rounds);
  expect(settling.asked).toEqual([]);
});

it("Lets a job run whose payment was settled before it, if its whole price is charged", async () => {
  const { store, settling, start } = await harness();
  const started = await start({ roundMs: 3_600_000 });
  const [used, after] = [metered(1), { ...metered(2), charge: "after" as const }];
  for (const payment of [used, after]) await store.beginPayment(payment, paidCall());
  const shortfalls = () => Promise.all([1, 2].map((callId) => started.findShortfall(callId)));
  expect(await shortfalls()).toEqual(["fingerprint-1 is short", "fingerprint-2 is short"]);
  settling.hasMoved = true;
  expect(await shortfalls()).toEqual(["fingerprint-1 is short", undefined]);
});

it("Checks for no shortfall when the funds were read within the last 20 ms", async () => {
  const { store, settling, start, times, begin } = await harness();
  const started = await start({ roundMs: 3_600_000 });
  const callId = await begin(1);
  const record = await store.findPayment(metered(1).key);
  if (record === undefined) throw new Error("expected a payment");
  settling.remembered = { record, fundsSeenAt: times.elapsedMs };
  times.elapsedMs += 20;
  expect(await started.findShortfall(callId)).toBeUndefined();
  times.elapsedMs += 1;
  expect(await started.findShortfall(callId)).toBe("fingerprint-1 is short");
  settling.remembered = { record, fundsSeenAt: undefined };
  expect(await started.findShortfall(callId)).toBe("fingerprint-1 is short");
});

it("Checks for a shortfall only of a metered payment that is not charged yet", async () => {
  const { store, begin, start } = await harness();
  const started = await start({ roundMs: 3_600_000 });
  const callId = await begin(1);
  expect(await started.findShortfall(callId)).toBe("fingerprint-1 is short");
  expect(await started.findShortfall(callId + 1)).toBeUndefined();
  await store.ack(await claimOne(store));
  expect(await started.findShortfall(callId)).toBeUndefined();
});
