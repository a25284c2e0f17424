import pino from "pino";
import { afterEach, expect, onTestFinished, test } from "vitest";
import type { HttpRequest } from "../../../src/http/request.ts";
import { HttpServer } from "../../../src/http/server.ts";
import type { CallState } from "../../../src/store/contract/call-lookup.ts";
import { CallEvents } from "../../../src/x402/calls/events.ts";
import { MAX_WAITS_OF_ONE, WaitPlaces } from "../../../src/x402/calls/wait-places.ts";
import { CallWatch } from "../../../src/x402/calls/watch.ts";
import { eventually } from "../../helpers/eventually.ts";
import { openEvents } from "../../helpers/server-sent-events.ts";
import { until } from "../../helpers/until.ts";

const CALL: CallState = {
  callId: 7,
  payment: { network: "eip155:1", asset: "0x1", payer: "0x2", nonce: "0x3" },
  job: { serviceId: 1n, jobIndex: 0 },
  state: "queued",
  attempt: 0,
  enqueuedAt: 1_800_000_000_000,
};

/** Streams the events of calls. The test sets their states. */
async function serveEvents({ heartbeatMs = 60_000 } = {}) {
  const calls = new Map<number, CallState>();
  const now = (callId: number) => calls.get(callId) ?? { ...CALL, callId };
  let polls = 0;
  const findCall = async (callId: number) => {
    polls++;
    return now(callId);
  };
  const watch = new CallWatch({ calls: { findCall }, pollMs: 5 });
  const events = new CallEvents({ watch, places: new WaitPlaces(), clock: Date.now, heartbeatMs });
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  const server = new HttpServer({ address, logger: pino({ level: "silent" }) });
  const table = (path: string) => ({
    GET: (request: HttpRequest) => events.stream(request, now(Number(path.slice(1)))),
  });
  await server.mount(table);
  const stop = async () => {
    watch.stop();
    await server.unmount(table);
  };
  onTestFinished(stop);
  const open = async (callId = 7, headers: Record<string, string> = {}) => {
    const events = await openEvents(`http://${server.address}/${callId}`, headers);
    opened.add(events);
    return events;
  };
  return {
    open,
    stop,
    /** Resolves once the state has been read several times more. */
    polled() {
      const before = polls;
      return until(() => polls > before + 3);
    },
    change: (to: Partial<CallState>, callId = 7) => void calls.set(callId, { ...now(callId), ...to }),
  };
}
const opened = new Set<Awaited<ReturnType<typeof openEvents>>>();
afterEach(() => {
  for (const events of opened) events.close();
  opened.clear();
});

const RUNNING = { state: "running", attempt: 1 } as const;

test("An event has an id, the state as its name, and the call as one line of JSON", async () => {
  const { open, change } = await serveEvents();
  change({ ...RUNNING, progress: { percent: 40, text: 'two\nlines\r\u2028 and "quotes"' } });
  const events = await open();
  expect(events.headers).toMatchObject({
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
  });
  expect(await events.next()).toEqual({
    id: expect.stringMatching(/^running-1-40-[0-9a-f]{8}$/),
    event: "running",
    data: {
      call_id: 7,
      state: "running",
      attempt: 1,
      progress: { percent: 40, text: 'two\nlines\r\u2028 and "quotes"' },
      enqueued_at: "2027-01-15T08:00:00.000Z",
    },
  });
});

test("Sends one event for each change, none without a change, and ends with the call", async () => {
  const { open, change, polled } = await serveEvents();
  const events = await open();
  const ids = [(await events.next())?.id];
  const changes: Partial<CallState>[] = [
    RUNNING,
    { progress: { percent: 40, text: "a" } },
    { progress: { percent: 40, text: "b" } },
    { progress: { percent: 41, text: "b" } },
    { progress: { percent: 40, text: "a" } },
    { state: "running", attempt: 2 },
    { state: "succeeded", finishedAt: 1_800_000_001_000 },
  ];
  for (const to of changes) {
    change(to);
    ids.push((await events.next())?.id);
    if (to.finishedAt === undefined) await polled();
  }
  expect(await events.next()).toBeUndefined();
  expect(events.comments).toBe(0);
  expect(ids).toHaveLength(8);
  expect(ids[0]).toBe("queued-0");
  expect(ids[1]).toBe("running-1");
  expect(ids[5]).toBe(ids[2]);
  expect(new Set(ids).size).toBe(7);
});

test("Resumes after Last-Event-ID", async () => {
  const { open, change } = await serveEvents();
  change(RUNNING);
  const same = await open(7, { "last-event-id": "running-1" });
  const other = await open(7, { "last-event-id": "queued-0" });
  const foolish = await open(7, { "last-event-id": "x".repeat(1_000) });
  expect((await other.next())?.id).toBe("running-1");
  expect((await foolish.next())?.id).toBe("running-1");
  change({ state: "failed" });
  expect((await same.next())?.id).toBe("failed-1");
  expect(await same.next()).toBeUndefined();

  const after = await open(7, { "last-event-id": "failed-1" });
  expect(after.status).toBe(204);
  const late = await open(7, { "last-event-id": "running-1" });
  expect([(await late.next())?.id, await late.next()]).toEqual(["failed-1", undefined]);
});

test("Sends comments while nothing changes", async () => {
  const { open } = await serveEvents({ heartbeatMs: 50 });
  const startedAt = Date.now();
  const events = await open();
  await events.next();
  await eventually(() => expect(events.comments).toBeGreaterThanOrEqual(3));
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(145);
});

test("A call has 20 streams at most; a place is free again when its client leaves or its call ends", async () => {
  const { open, change } = await serveEvents();
  change({ payment: { ...CALL.payment, payer: "0x8" } }, 8);
  const streams = await Promise.all(Array.from({ length: MAX_WAITS_OF_ONE }, () => open()));
  const refused = await open();
  expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "5"]);
  expect((await open(8)).status).toBe(200);
  streams[0]?.close();
  await eventually(async () => expect((await open()).status).toBe(200));
  change({ state: "succeeded" });
  for (const stream of streams.slice(1)) while ((await stream.next()) !== undefined);
  expect((await open()).status).toBe(200);
});

test("A buyer has 20 streams at most over all calls, and still reads the end of another call", async () => {
  const { open, change } = await serveEvents();
  const statuses = await Promise.all(
    Array.from({ length: MAX_WAITS_OF_ONE + 1 }, async (_, i) => (await open(100 + i)).status),
  );
  expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  change({ state: "succeeded" }, 99);
  expect((await (await open(99)).next())?.event).toBe("succeeded");
});

test("Stopping ends every stream", async () => {
  const { open, stop } = await serveEvents();
  const streams = await Promise.all([open(1), open(2)]);
  for (const stream of streams) await stream.next();
  await stop();
  for (const stream of streams) expect(await stream.next()).toBeUndefined();
});
