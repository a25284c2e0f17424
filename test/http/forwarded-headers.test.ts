import { expect, test } from "vitest";
import { ForwardedHeaders } from "../../src/http/forwarded-headers.ts";

test.each([
  [["x-tier"], ["content-type", "x-tier"]],
  [["if-none-match", "if-range", "range"], ["content-type"]],
  [["*"], ["accept", "accept-language", "content-type"]],
  [
    ["*", "x-tier"],
    ["accept", "accept-language", "content-type", "x-tier"],
  ],
])(
  "A payment is bound to the headers that %j names, with all headers to the default ones too",
  (names, bound) => {
    expect(new ForwardedHeaders(names).names).toEqual(bound);
  },
);

test("A payment is bound to the headers that a price reads, whatever they are", () => {
  const { names } = new ForwardedHeaders(["*", "range"], { priced: ["if-none-match", "x-tier"] });
  expect(names).toEqual(["accept", "accept-language", "content-type", "if-none-match", "x-tier"]);
});

test("With all headers, a header is read once although its name is listed too", () => {
  const headers = { "x-tier": "pro", "x-other": "1" } as Readonly<Record<string, string>>;
  const headerValues = (name: string) => (headers[name] === undefined ? [] : [headers[name]]);
  expect(new ForwardedHeaders(["*", "x-tier"]).read({ headers, headerValues })).toEqual([
    ["X-HTTP-X-TIER", "pro"],
    ["X-HTTP-X-OTHER", "1"],
  ]);
});
