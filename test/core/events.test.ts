import { expect, it } from "vitest";
import { EventHub, type GatewayEvent } from "../../src/core/events.ts";

const acked: GatewayEvent = { at: 0, callId: 1, what: { kind: "acked", resultBytes: 0, status: undefined } };
const dropped: GatewayEvent = { at: 0, callId: 2, what: { kind: "dropped" } };

it("A listener receives the kinds it subscribed to, or all; other kinds are not watched", () => {
  const hub = new EventHub();
  const heard: Record<string, number[]> = { all: [], acks: [] };
  expect(hub.watches("acked", "dropped")).toBe(false);
  const endAcks = hub.subscribe(({ callId }) => heard.acks?.push(callId), ["acked"]);
  expect(hub.watches("dropped")).toBe(false);
  expect(hub.watches("dropped", "acked")).toBe(true);
  const endAll = hub.subscribe(({ callId }) => heard.all?.push(callId));
  expect(hub.watches("dropped")).toBe(true);
  for (const event of [acked, dropped]) hub.emit(event);
  endAcks();
  for (const event of [acked, dropped]) hub.emit(event);
  endAll();
  hub.emit(acked);
  expect(heard).toEqual({ all: [1, 2, 1, 2], acks: [1] });
  expect(hub.watches("acked", "dropped")).toBe(false);
});

it("A function that subscribes twice receives everything twice until each subscription ends", () => {
  const hub = new EventHub();
  let heard = 0;
  const listener = () => void heard++;
  const [endFirst, endSecond] = [hub.subscribe(listener), hub.subscribe(listener)];
  hub.emit(acked);
  endFirst();
  hub.emit(acked);
  endSecond();
  hub.emit(acked);
  expect(heard).toBe(3);
});
