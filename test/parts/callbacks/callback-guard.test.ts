import { describe, expect, test } from "vitest";
import { parseIpRange } from "../../../src/core/network-address.ts";
import { CallbackGuard } from "../../../src/parts/callbacks/callback-guard.ts";
import { isPublicAddress } from "../../../src/parts/callbacks/public-addresses.ts";

const guard = new CallbackGuard({ ports: [443, 8443], allowedAddresses: [] });

/** Ends and insides of the ranges, and forms of private addresses inside others. */
const NOT_PUBLIC = [
  "0.0.0.0",
  "0.255.255.255",
  "10.0.0.0",
  "10.255.255.255",
  "100.64.0.0",
  "100.127.255.255",
  "127.0.0.1",
  "127.255.255.255",
  "169.254.0.0",
  "169.254.169.254",
  "169.254.255.255",
  "161.26.0.10",
  "166.8.0.0",
  "166.11.255.255",
  "168.63.129.16",
  "172.16.0.0",
  "172.31.255.255",
  "192.0.0.8",
  "192.0.0.192",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.0",
  "192.168.255.255",
  "198.18.0.0",
  "198.19.255.255",
  "198.51.100.7",
  "203.0.113.7",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::7f00:1",
  "::ffff:127.0.0.1",
  "::ffff:8.8.8.8",
  "::ffff:0:127.0.0.1",
  "64:ff9b::7f00:1",
  "64:ff9b::808:808",
  "64:ff9b:1::a00:1",
  "100::1",
  "2001::1",
  "2001:0:7f00:1::",
  "2001:2::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "2002:a9fe:a9fe::",
  "3fff::1",
  "5f00::1",
  "fc00::1",
  "fd00:ec2::254",
  "fdff:ffff::1",
  "fe80::1",
  "febf::1",
  "fec0::1",
  "ff02::1",
];
const PUBLIC = [
  "1.1.1.1",
  "9.255.255.255",
  "11.0.0.0",
  "100.63.255.255",
  "100.128.0.0",
  "126.255.255.255",
  "128.0.0.0",
  "169.253.255.255",
  "169.255.0.0",
  "166.12.0.0",
  "168.63.129.17",
  "172.15.255.255",
  "172.32.0.0",
  "192.167.255.255",
  "192.169.0.0",
  "198.17.255.255",
  "198.20.0.0",
  "223.255.255.255",
  "2001:4860:4860::8888",
  "2606:4700:4700::1111",
  "2a00::1",
];
const bracketed = (address: string) => (address.includes(":") ? `[${address}]` : address);

describe("Callback-URL", () => {
  test.each(NOT_PUBLIC)("may not have the address %s, nor may its name resolve to it", (address) => {
    expect(isPublicAddress(address)).toBe(false);
    expect(guard.allows(address)).toBe(false);
    expect(guard.parse(`https://${bracketed(address)}/`)).toEqual({
      problem: "is not on the public internet",
    });
  });

  test.each(PUBLIC)("may have the address %s, and its name may resolve to it", (address) => {
    expect(guard.allows(address)).toBe(true);
    expect(guard.parse(`https://${bracketed(address)}/`)).toHaveProperty("url");
  });

  test.each([
    ["a text that is no address", "localhost"],
    ["an address with a zone", "fe80::1%eth0"],
    ["nothing", ""],
  ])("%s is not public", (_, address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  test.each([
    ["http://buyer.example/", "is not https"],
    ["http://127.0.0.1/", "is not https"],
    ["ftp://buyer.example/", "is not an absolute https:// URL"],
    ["buyer.example/hook", "is not an absolute https:// URL"],
    ["/hook", "is not an absolute https:// URL"],
    ["", "is not an absolute https:// URL"],
    ["https:buyer.example", "is not an absolute https:// URL"],
    ["https:///buyer.example", "is not an absolute https:// URL"],
    ["https://buyer.example/a b", "is not an absolute https:// URL"],
    ["https://buyer.example/\u00fc", "is not an absolute https:// URL"],
    ["https://good.example\\@127.0.0.1/", "is not an absolute https:// URL"],
    ["https://[::1/", "is not an absolute https:// URL"],
    ["https://ada@buyer.example/", "has a user name or password"],
    ["https://:secret@buyer.example/", "has a user name or password"],
    ["https://../", "has a host that is neither a name nor an IP address"],
    ["https://a..b/", "has a host that is neither a name nor an IP address"],
    ["https://-a.example/", "has a host that is neither a name nor an IP address"],
    [`https://${"a".repeat(300)}.example/`, "has a host that is neither a name nor an IP address"],
    ["https://buyer.example:8080/", "has port 8080; expected 443 or 8443"],
    ["https://buyer.example:22/", "has port 22; expected 443 or 8443"],
    [`https://buyer.example/${"a".repeat(2_048)}`, "is longer than 2048 characters"],
    // Other ways to write 127.0.0.1 and 169.254.169.254.
    ["https://2130706433/", "is not on the public internet"],
    ["https://0x7f000001/", "is not on the public internet"],
    ["https://0177.0.0.1/", "is not on the public internet"],
    ["https://127.1/", "is not on the public internet"],
    ["https://0/", "is not on the public internet"],
    ["https://169.254.43518/", "is not on the public internet"],
    ["https://127.0.0.1./", "is not on the public internet"],
    ["https://%31%32%37.0.0.1/", "is not on the public internet"],
    ["https://localhost/", "is not on the public internet"],
    ["https://LOCALHOST./", "is not on the public internet"],
    ["https://a.localhost/", "is not on the public internet"],
    ["https://metadata.google.internal/", "is not on the public internet"],
    ["https://metadata.google.internal./", "is not on the public internet"],
    ["https://metadata/", "is not on the public internet"],
    ["https://instance-data/", "is not on the public internet"],
    ["https://printer.local/", "is not on the public internet"],
    ["https://db.svc/", "is not on the public internet"],
    ["https://nas.lan/", "is not on the public internet"],
    ["https://router.home.arpa/", "is not on the public internet"],
  ])("%s is refused", (text, problem) => {
    expect(guard.parse(text)).toEqual({ problem });
  });

  test.each([
    ["https://buyer.example", "https://buyer.example/"],
    ["HTTPS://Buyer.Example:443/Hook?a=b#c", "https://buyer.example/Hook?a=b"],
    ["https://buyer.example:8443/", "https://buyer.example:8443/"],
  ])("%s is kept as %s", (text, url) => {
    expect(guard.parse(text)).toEqual({ url });
  });

  test("An address that the operator allows needs neither TLS nor a port, and allows no other", () => {
    const ranges = ["127.0.0.1", "fd00::/8"].flatMap((text) => parseIpRange(text) ?? []);
    const lax = new CallbackGuard({ ports: [443], allowedAddresses: ranges });
    expect(lax.parse("http://127.0.0.1:8000/")).toEqual({ url: "http://127.0.0.1:8000/" });
    expect(lax.parse("http://[fd00::1]:8000/")).toEqual({ url: "http://[fd00::1]:8000/" });
    expect(lax.parse("http://127.0.0.2:8000/")).toEqual({ problem: "is not https" });
    expect(lax.parse("https://localhost/")).toEqual({ problem: "is not on the public internet" });
    expect(lax.allows("127.0.0.1")).toBe(true);
    expect(lax.allows("127.0.0.2")).toBe(false);
    expect(lax.allows("::ffff:127.0.0.2")).toBe(false);
  });
});
