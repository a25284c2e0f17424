import { describe, expect, it, test } from "vitest";
import { createAddressFinder, ForwardedHeaders } from "../../src/http/request.ts";

const PROXIES = [{ address: "10.0.0.0", prefixBits: 8, family: "ipv4" }] as const;

function from(remoteAddress: string, forwarded?: string) {
  return { remoteAddress, headerValues: () => (forwarded === undefined ? [] : [forwarded]) };
}

describe("A client's address", () => {
  it.each([
    ["192.0.2.1", "192.0.2.1"],
    ["192.0.2.1:8080", "192.0.2.1"],
    ["2001:db8::1", "2001:db8::1"],
    ["[2001:db8::1]:8080", "2001:db8::1"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["fe80::1%eth0", "fe80::1"],
    ["::ffff:192.0.2.1", "::ffff:192.0.2.1"],
    ["unknown", undefined],
    ["", undefined],
  ])("%s is read as %s", (text, address) => {
    expect(createAddressFinder([])(from(text))).toBe(address);
    expect(createAddressFinder(PROXIES)(from("10.0.0.1", text))).toBe(text === "" ? "10.0.0.1" : address);
  });

  it("The client's address is the rightmost address that is not a proxy's, however often and in whatever order it is asked for", () => {
    const find = createAddressFinder(PROXIES);
    for (let time = 0; time < 3; time++) {
      expect(find(from("10.0.0.1", "192.0.2.9, 192.0.2.1, 10.0.0.2"))).toBe("192.0.2.1");
      expect(find(from("192.0.2.1", "198.51.100.7"))).toBe("192.0.2.1");
      expect(find(from("::ffff:10.0.0.1", "198.51.100.7"))).toBe("198.51.100.7");
      expect(find(from("10.0.0.1", "10.0.0.2"))).toBe("10.0.0.2");
    }
  });
});

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
