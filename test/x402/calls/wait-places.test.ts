import { expect, test } from "vitest";
import { MAX_WAITS_OF_ONE, WaitPlaces } from "../../../src/x402/calls/wait-places.ts";

const MAX = MAX_WAITS_OF_ONE;
const times = (count: number, take: (i: number) => unknown) =>
  Array.from({ length: count }, (_, i) => take(i)).filter((taken) => taken !== undefined).length;

test.each([
  ["call", (i: number) => ({ callId: 1, payer: `0x${i}`, session: `s${i}` })],
  ["buyer", (i: number) => ({ callId: i, payer: "0x1", session: `s${i}` })],
  ["session", (i: number) => ({ callId: i, payer: `0x${i}`, session: "s" })],
])("One %s has 20 places, and another finds one", (_of, waiter) => {
  const places = new WaitPlaces();
  expect(times(3 * MAX, (i) => places.take(waiter(i)))).toBe(MAX);
  expect(places.take({ callId: 1_000, payer: "0x1000", session: "another" })).toBeDefined();
});

test("A place is free again once, when its holder leaves", () => {
  const places = new WaitPlaces();
  const take = () => places.take({ callId: 1, payer: "0x1" });
  const leave = take();
  expect(times(MAX, take)).toBe(MAX - 1);
  leave?.();
  leave?.();
  expect(times(2, take)).toBe(1);
});

test("Any number of clients wait for a job's own answer to one call, and leave its 20 places to others", () => {
  const places = new WaitPlaces();
  expect(times(3 * MAX, () => places.take({ callId: 1 }))).toBe(3 * MAX);
  expect(times(2 * MAX, () => places.take({ callId: 1, payer: "0x1" }))).toBe(MAX);
});

test("A client without a session shares no place with others of that kind", () => {
  const places = new WaitPlaces();
  expect(times(2 * MAX, (i) => places.take({ callId: i, payer: `0x${i}` }))).toBe(2 * MAX);
});

test("10,000 clients wait at once, and the next finds no place until a client leaves", () => {
  const places = new WaitPlaces();
  const taken = Array.from({ length: 10_000 }, (_, i) => places.take({ callId: i, payer: `0x${i}` }));
  expect(taken).not.toContain(undefined);
  const late = () => places.take({ callId: 10_000, payer: "0x10000" });
  expect(late()).toBeUndefined();
  taken[0]?.();
  expect(late()).toBeDefined();
});
