import { describe, expect, it } from "vitest";
import { preferredWaitSecs } from "../../../src/x402/calls/wait-for-result.ts";
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
  ])("%s is a wait of %d s", (header, seconds) => {
    expect(secondsOf(header)).toBe(seconds);
  });

  it("The first of several counts, over all header lines in their order", () => {
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
    // The first counts, even if it makes no sense.
    "wait, wait=10",
    "wait=soon, wait=10",
    // Not the grammar: ignored whole, whatever else is in it.
    "wait=",
    "wait=10 20",
    "wait=10, foo=",
    "wait=10, =5",
    'wait=10, foo="open',
    "wait=10, fo@o",
    "wait=１０",
    "wait=10;=",
  ])("%s is no wait", (header) => {
    expect(secondsOf(header)).toBeUndefined();
  });

  it("No header is no wait", () => {
    expect(secondsOf()).toBeUndefined();
  });

  it.each([" ", "a ;", 'a="', "a=", ", ,", '"\\'])("32 KiB of %j take no longer than a blink", (piece) => {
    const startedAt = performance.now();
    secondsOf(`wait=1;${piece.repeat(32_768 / piece.length)}\x01`);
    expect(performance.now() - startedAt).toBeLessThan(200);
  });
});
