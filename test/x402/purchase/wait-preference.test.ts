import { describe, expect, it } from "vitest";
import { preferredWaitSecs } from "../../../src/x402/purchase/job-route.ts";
import { requestWith } from "../payments.ts";

const secondsOf = (...headers: string[]) =>
  preferredWaitSecs(requestWith(headers.map((value) => ["prefer", value])));

describe("Prefer: wait", () => {
  it.each<[string, number]>([
    ["wait=1", 1],
    ["wait=60", 60],
    ["wait=61", 60],
    ["wait=99999999999999999999999999", 60],
    ["wait=007", 7],
    ["WAIT=10", 10],
    ["wait = 10", 10],
    ['wait="10"', 10],
    ["wait=10;", 10],
    ["wait=10; strict; a=b ; ;c", 10],
    ['respond-async, wait=10;x="a, wait=3; \\"", handling=lenient', 10],
    [" , ,\twait=10 ,", 10],
    ['foo="", wait=10', 10],
    ["return=representation;foo=1,wait=9,wait=3", 9],
  ])("%s waits %d s", (header, seconds) => {
    expect(secondsOf(header)).toBe(seconds);
  });

  it("The first of several wait preferences counts, across all header lines in order", () => {
    expect(secondsOf("respond-async", "wait=5, foo", "wait=7")).toBe(5);
  });

  it.each([
    "",
    ",",
    "wait",
    'wait=""',
    "wait=0",
    "wait=-1",
    "wait=1.5",
    "wait=1e1",
    "wait=0x10",
    "wait=ten",
    'wait="ten"',
    "waiting=10",
    "foo; wait=10",
    'foo="wait=10"',
    'foo="\\", wait=10"',
    // The first preference counts, even if its value is invalid.
    "wait, wait=10",
    "wait=soon, wait=10",
    // A header that breaks the grammar is ignored as a whole.
    "wait=",
    "wait=10 20",
    "wait=10, foo=",
    "wait=10, =5",
    'wait=10, foo="open',
    "wait=10, fo@o",
    "wait=１０",
    "wait=10;=",
  ])("%s does not wait", (header) => {
    expect(secondsOf(header)).toBeUndefined();
  });

  it("A request without the header does not wait", () => {
    expect(secondsOf()).toBeUndefined();
  });

  it.each([" ", "a ;", 'a="', "a=", ", ,", '"\\'])("Parses 256 KiB of %j in linear time", (piece) => {
    const before = process.cpuUsage();
    secondsOf(`wait=1;${piece.repeat(262_144 / piece.length)}\x01`);
    // It takes a few ms. With time that grows with the square of the length it would be a minute.
    expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
  });
});
