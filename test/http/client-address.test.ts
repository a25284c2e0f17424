import { describe, expect, it } from "vitest";
import { createAddressFinder } from "../../src/http/client-address.ts";

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

  it("Is the rightmost one that is no proxy's, however often and in whatever order it is asked for", () => {
    const find = createAddressFinder(PROXIES);
    for (let time = 0; time < 3; time++) {
      expect(find(from("10.0.0.1", "192.0.2.9, 192.0.2.1, 10.0.0.2"))).toBe("192.0.2.1");
      expect(find(from("192.0.2.1", "198.51.100.7"))).toBe("192.0.2.1");
      expect(find(from("::ffff:10.0.0.1", "198.51.100.7"))).toBe("198.51.100.7");
      expect(find(from("10.0.0.1", "10.0.0.2"))).toBe("10.0.0.2");
    }
  });
});
