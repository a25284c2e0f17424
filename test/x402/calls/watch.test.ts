import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { EventHub } from "../../../src/core/events.ts";
import type { PaymentIntent } from "../../../src/core/payment.ts";
import type { CallState } from "../../../src/store/contract/call-lookup.ts";
import type { ClaimedCall } from "../../../src/store/contract/work-queue.ts";
import type { Store } from "../../../src/store/store.ts";
import { emitEvents } from "../../../src/store-events.ts";
import { ResultWaits } from "../../../src/x402/calls/wait-for-result.ts";
import { MAX_WAITS_OF_ONE, WaitPlaces } from "../../../src/x402/calls/wait-places.ts";
import { CallWatch } from "../../../src/x402/calls/watch.ts";
import { eventually } from "../../helpers/eventually.ts";
import { startLog } from "../../helpers/log.ts";
import { openTestStore, type TestStore } from "../../helpers/test-store.ts";
import { claimOne, paidCall, paidId, paymentIntent } from "../../store/store-fixtures.ts";

const events = new EventHub();
let opened: TestStore;
let store: Store;
/** While true, changes emit no events: as if another process had made them. */
let isQuiet = false;
let payments = 0;
const { logger, lines } = startLog("error");

beforeAll(async () => {
  const emit = emitEvents(events);
  opened = await openTestStore({ onCommitted: (committed) => isQuiet || emit(committed) });
  ({ store } = opened);
});
afterAll(async () => {
  await opened.stop();
});

const watches: CallWatch[] = [];
afterEach(() => {
  isQuiet = false;
  for (const watch of watches.splice(0)) watch.stop();
});

/** Opens a watch that gets events, and polls only once an hour by default. */
function openWatch({
  calls = store,
  pollMs = 3_600_000,
}: {
  calls?: Pick<Store, "findCall">;
  pollMs?: number;
} = {}) {
  const watch = new CallWatch({ calls, events, pollMs });
  watches.push(watch);
  return watch;
}

/** Follows a call to its end and collects the states. */
function follow(watch: CallWatch, callId: number, signal = new AbortController().signal) {
  const seen: CallState["state"][] = [];
  const ended = (async () => {
    for await (const { state } of watch.states(callId, signal)) seen.push(state);
  })();
  return { seen, ended };
}
const newCall = () => paidId(store, ++payments);
const paid = (callId: number) => ({ callId, payment: paymentIntent(callId).key, settlement: {} });
const RETRY = { delayMs: 0, backoff: { baseMs: 0, maxMs: 0 }, maxAttempts: 9, reason: "again" };

test("Yields each change at once, from the current state to the end of the call", async () => {
  const callId = await newCall();
  const { seen, ended } = follow(openWatch(), callId);
  await eventually(() => expect(seen).toEqual(["queued"]));
  const first = await claimOne(store);
  await eventually(() => expect(seen.at(-1)).toBe("running"));
  await store.retry(first, RETRY);
  await eventually(() => expect(seen.at(-1)).toBe("queued"));
  const second = await claimOne(store);
  await eventually(() => expect(seen.at(-1)).toBe("running"));
  await store.ack(second);
  await ended;
  expect(seen.at(-1)).toBe("succeeded");
});

test("Changes of other calls wake no watcher", async () => {
  const callId = await newCall();
  const { seen } = follow(openWatch(), callId);
  await eventually(() => expect(seen).toHaveLength(1));
  const own = await claimOne(store);
  await eventually(() => expect(seen).toHaveLength(2));
  await newCall();
  await store.fail(await claimOne(store), "no good");
  await store.findCall(callId);
  expect(seen).toEqual(["queued", "running"]);
  await store.ack(own);
});

test("Changes without an event are seen at the next poll: another process's work, an expired lease", async () => {
  const callId = await newCall();
  const { seen, ended } = follow(openWatch({ pollMs: 20 }), callId);
  isQuiet = true;
  const lease = await claimOne(store);
  await eventually(() => expect(seen).toContain("running"));
  await store.extend(lease, 1);
  await eventually(() => expect(seen.at(-1)).toBe("queued"));
  await store.ack(await claimOne(store));
  await ended;
  expect(seen.at(-1)).toBe("succeeded");
});

test("Yields a finished call once and a missing call never", async () => {
  const callId = await newCall();
  await store.fail(await claimOne(store), "no good");
  const dead = follow(openWatch(), callId);
  await dead.ended;
  expect(dead.seen).toEqual(["failed"]);
  const missing = follow(openWatch(), callId + 1_000_000);
  await missing.ended;
  expect(missing.seen).toEqual([]);
});

test("Keeps watching while the store cannot be read", async () => {
  const callId = await newCall();
  await store.ack(await claimOne(store));
  let failures = 3;
  const calls: Pick<Store, "findCall"> = {
    findCall: (id) => (failures-- > 0 ? Promise.reject(new Error("busy")) : store.findCall(id)),
  };
  const { seen, ended } = follow(openWatch({ calls, pollMs: 5 }), callId);
  await ended;
  expect(seen).toEqual(["succeeded"]);
});

test("Aborting and stop end the subscription; a watcher that starts after stop sees nothing", async () => {
  const callId = await newCall();
  const watch = openWatch();
  const leaving = new AbortController();
  const left = follow(watch, callId, leaving.signal);
  const sentAway = follow(watch, callId);
  await eventually(() => expect([...left.seen, ...sentAway.seen]).toEqual(["queued", "queued"]));
  leaving.abort();
  await left.ended;
  expect(events.watches("accepted")).toBe(true);
  watch.stop();
  await sentAway.ended;
  expect(events.watches("accepted")).toBe(false);
  const late = follow(watch, callId);
  await late.ended;
  expect(late.seen).toEqual([]);
  await store.ack(await claimOne(store));
});

test("A wait ends when its client hangs up, even before the wait begins", async () => {
  const callId = await newCall();
  const waits = new ResultWaits({ calls: store, watch: openWatch(), places: new WaitPlaces(), logger });
  const leaving = new AbortController();
  const waiting = waits.waitFor(paid(callId), 60, leaving.signal);
  await eventually(() => expect(events.watches("accepted")).toBe(true));
  leaving.abort();
  expect(await waiting).toMatchObject({ kind: "not_in_time" });
  expect(events.watches("accepted")).toBe(false);
  expect(await waits.waitFor(paid(callId), 60, AbortSignal.abort())).toMatchObject({
    kind: "not_in_time",
  });
  await store.ack(await claimOne(store));
});

test("A result that cannot be read does not reject the wait: the call is paid for", async () => {
  const callId = await newCall();
  await store.ack(await claimOne(store));
  const calls = { ...store, findResult: () => Promise.reject(new Error("busy")) };
  const waits = new ResultWaits({ calls, watch: openWatch(), places: new WaitPlaces(), logger });
  const waited = await waits.waitFor(paid(callId), 5, new AbortController().signal);
  expect(waited).toMatchObject({ kind: "not_in_time" });
  expect(lines).toMatchObject([{ msg: "could not wait for a result", callId, err: { message: "busy" } }]);
});

test("20 requests wait for a call at once; the next does not wait, and room comes back", async () => {
  const callId = await newCall();
  const waits = new ResultWaits({ calls: store, watch: openWatch(), places: new WaitPlaces(), logger });
  const { signal } = new AbortController();
  const waiting = Array.from({ length: MAX_WAITS_OF_ONE }, () =>
    waits.waitFor(paid(callId), 60, new AbortController().signal),
  );
  expect(await waits.waitFor(paid(callId), 60, signal)).toEqual({ kind: "not_waited" });
  await store.ack(await claimOne(store), { body: Buffer.from("x"), contentType: "text/plain" });
  const kinds = new Set((await Promise.all(waiting)).map(({ kind }) => kind));
  expect([...kinds]).toEqual(["answered"]);
  expect(await waits.waitFor(paid(callId), 60, signal)).toMatchObject({ kind: "answered" });
});

/** Begins a payment that is charged after its job, and a wait for the result of its call that counts its looks. */
async function waitForLateCharge({
  isNew = true,
  pollMs = 3_600_000,
  terms = { charge: "after" } as Pick<PaymentIntent, "charge" | "minCharge">,
} = {}) {
  const intent = paymentIntent(++payments, terms);
  const begun = await store.beginPayment(intent, paidCall());
  if (begun.kind !== "begun") throw new Error(`expected begun, got ${begun.kind}`);
  const { callId } = begun;
  let looks = 0;
  const findCall: Store["findCall"] = (id) => {
    looks++;
    return store.findCall(id);
  };
  const watch = openWatch({ calls: { findCall }, pollMs });
  const waits = new ResultWaits({
    calls: { findCall, findResult: store.findResult },
    ...{ watch, places: new WaitPlaces(), logger },
  });
  const leaving = new AbortController();
  const waiting = waits.waitFor({ callId, payment: intent.key }, 60, leaving.signal, { isNew });
  return {
    ...{ callId, waiting },
    looks: () => looks,
    leave: () => leaving.abort(),
    settle: () => store.settlePayment(intent.key, "{}"),
  };
}
const RESULT = { body: Buffer.from("x"), contentType: "text/plain" };

test("A wait for a call that is charged after it ran reads the call once: when its charge is settled", async () => {
  const { callId, waiting, looks, settle } = await waitForLateCharge();
  await store.ack(await claimOne(store), RESULT);
  // A look that the ack led to would have begun by the end of this one.
  await store.findCall(callId);
  expect(looks()).toBe(0);
  await settle();
  expect(await waiting).toMatchObject({ kind: "answered", result: { size: 1 } });
  expect(looks()).toBe(1);
});

test.each<[string, (lease: ClaimedCall) => Promise<unknown>, string]>([
  ["is released with an answer", (lease) => store.ack(lease, { ...RESULT, status: 500 }), "answered"],
  ["fails", (lease) => store.fail(lease, "no good"), "not_in_time"],
])("A wait ends at once when a job that is charged after it ran %s", async (_how, end, kind) => {
  const { waiting } = await waitForLateCharge();
  await end(await claimOne(store));
  expect(await waiting).toMatchObject({ kind, call: { state: "failed", charge: { state: "released" } } });
});

test("A wait ends at once when a job that was charged before it ran fails", async () => {
  const callId = await newCall();
  const waits = new ResultWaits({ calls: store, watch: openWatch(), places: new WaitPlaces(), logger });
  const waiting = waits.waitFor(paid(callId), 60, new AbortController().signal, { isNew: true });
  await store.fail(await claimOne(store), "no good");
  expect(await waiting).toMatchObject({ kind: "not_in_time", call: { state: "failed" } });
});

test("A wait ends at the ack of a job that was charged while it ran, because its authorization ended", async () => {
  const { callId, waiting, settle } = await waitForLateCharge({
    terms: { charge: "used", minCharge: "10" },
  });
  const lease = await claimOne(store);
  expect(await store.endAuthorization(callId)).toMatchObject({ kind: "charged" });
  await settle();
  await store.ack(lease, RESULT);
  expect(await waiting).toMatchObject({ kind: "answered", call: { state: "succeeded" } });
});

test("A wait that ends without a result shows the call as it is then", async () => {
  const { waiting, leave, settle } = await waitForLateCharge();
  await store.ack(await claimOne(store), RESULT);
  leave();
  expect(await waiting).toMatchObject({ kind: "not_in_time", call: { charge: { isAwaited: true } } });
  await settle();
});

test("A wait for a call that was bought before reads the call at once", async () => {
  const { callId, waiting, looks, settle } = await waitForLateCharge({ isNew: false });
  await eventually(() => expect(looks()).toBe(1));
  await store.ack(await claimOne(store), RESULT);
  await settle();
  expect(await waiting).toMatchObject({ kind: "answered", call: { callId } });
});

test("A new call that changes without an event is read at the next poll", async () => {
  isQuiet = true;
  const { waiting, settle } = await waitForLateCharge({ pollMs: 20 });
  await store.ack(await claimOne(store), RESULT);
  await settle();
  expect(await waiting).toMatchObject({ kind: "answered" });
});
