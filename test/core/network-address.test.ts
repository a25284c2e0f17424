import { expect, test } from "vitest";
import { isLoopbackHost, isSameAddress, localUrl, parseBindAddress } from "../../src/core/network-address.ts";

test.each([
  ["127.0.0.1:8402", { kind: "tcp", host: "127.0.0.1", port: 8402 }],
  ["[::1]:0", { kind: "tcp", host: "::1", port: 0 }],
  ["gate.internal:65535", { kind: "tcp", host: "gate.internal", port: 65535 }],
  ["unix:/run/jobgate.sock", { kind: "unix", path: "/run/jobgate.sock" }],
])("%s is an address", (text, address) => {
  expect(parseBindAddress(text)).toEqual(address);
});

test.each([
  "",
  ":8402",
  "8402",
  "127.0.0.1",
  "127.0.0.300:1",
  "host:65536",
  "::1:80",
  "[::g]:1",
  "unix:",
  "a b:1",
  "h:-1",
])("%j is not an address", (text) => {
  expect(parseBindAddress(text)).toBeUndefined();
});

test("Loopback hosts are 127.0.0.0/8, ::1 and localhost", () => {
  expect(["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"].every(isLoopbackHost)).toBe(
    true,
  );
  expect(
    ["0.0.0.0", "127.0.0.1.example.com", "::", "10.0.0.1", "localhost.example"].some(isLoopbackHost),
  ).toBe(false);
});

test("Two listeners on port 0 have different addresses", () => {
  const any = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  expect(isSameAddress(any, any)).toBe(false);
  expect(isSameAddress({ ...any, port: 1 }, { ...any, port: 1 })).toBe(true);
  expect(isSameAddress({ kind: "unix", path: "/a" }, { kind: "unix", path: "/a" })).toBe(true);
  expect(isSameAddress({ kind: "unix", path: "/a" }, { kind: "unix", path: "/b" })).toBe(false);
});

test("A listener on every interface has a loopback URL", () => {
  expect(localUrl({ kind: "tcp", host: "0.0.0.0", port: 8402 })).toBe("http://127.0.0.1:8402");
  expect(localUrl({ kind: "tcp", host: "fd00::1", port: 1 })).toBe("http://[fd00::1]:1");
});
