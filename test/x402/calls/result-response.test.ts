import { expect, test } from "vitest";
import { selectPart } from "../../../src/x402/calls/result-response.ts";

const ETAG = '"7-1"';
const select = (headers: Parameters<typeof selectPart>[0], size = 10, etag = ETAG) =>
  selectPart(headers, { etag, size });
const range = (first: number, last: number) => ({ kind: "range", first, last });
const [WHOLE, UNSATISFIABLE] = [{ kind: "whole" }, { kind: "unsatisfiable" }];

test.each<[string, object]>([
  ["bytes=0-0", range(0, 0)],
  ["bytes=2-", range(2, 9)],
  ["Bytes= 2-5 ", range(2, 5)],
  ["bytes=9-999999999999999", range(9, 9)],
  ["bytes=-3", range(7, 9)],
  ["bytes=-30", range(0, 9)],
  ["bytes=-0", UNSATISFIABLE],
  ["bytes=10-", UNSATISFIABLE],
  ["bytes=5-2", WHOLE],
  ["bytes=0-1,3-4", WHOLE],
  ["bytes=", WHOLE],
  ["bytes=-", WHOLE],
  ["bytes=1-9999999999999999", WHOLE],
  ["items=0-1", WHOLE],
])("Range: %s selects %j of ten bytes", (value, part) => {
  expect(select({ range: value })).toEqual(part);
});

test("No range of an empty result can be satisfied", () => {
  for (const value of ["bytes=0-", "bytes=-1"]) expect(select({ range: value }, 0)).toEqual(UNSATISFIABLE);
});

test("If-None-Match compares weakly, and comes before Range", () => {
  const is = (known: string, etag = ETAG) =>
    select({ "if-none-match": known, range: "bytes=0-0" }, 10, etag).kind;
  for (const known of [ETAG, `W/${ETAG}`, `"a,b", ${ETAG}`, " * "]) expect(is(known)).toBe("not_modified");
  for (const known of ['"7"', "7-1", ""]) expect(is(known)).toBe("range");
  expect(is('"1"', 'W/"1"')).toBe("not_modified");
});

test("If-Range with another or a weak tag, or a date, selects the whole", () => {
  const is = (unchanged: string, etag = ETAG) =>
    select({ "if-range": unchanged, range: "bytes=0-0" }, 10, etag).kind;
  expect(is(ETAG)).toBe("range");
  for (const unchanged of ['"7"', `W/${ETAG}`, "Thu, 01 Jan 2026 00:00:00 GMT"])
    expect(is(unchanged)).toBe("whole");
  expect(is('W/"1"', 'W/"1"')).toBe("whole");
});
