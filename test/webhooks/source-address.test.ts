import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AddressedRequest, createSourceCheck } from "../../src/http/request.ts";
import { startBeforeAll } from "../helpers/start-before-all.ts";
import { endpoint, named, ranges, startWebhooks, UNAUTHORIZED, type WebhooksUnderTest } from "./harness.ts";

const OPEN = { mode: "none" } as const;

describe("allow_cidrs, over the wire", () => {
  const webhooks = startBeforeAll(() => startWebhooks([]));

  it("A sender at another address gets the same 401 as a sender with a wrong secret", async () => {
    webhooks.use([
      endpoint("/here", OPEN, { allowCidrs: ranges("127.0.0.0/8") }),
      endpoint("/away", OPEN, { allowCidrs: ranges("203.0.113.0/24", "2001:db8::/32") }),
    ]);
    expect((await webhooks.post("/here", {}, "x")).status).toBe(202);
    expect(await webhooks.post("/away", {}, "x")).toMatchObject(UNAUTHORIZED);
  });

  it("X-Forwarded-For is used only if a trusted proxy sent it", async () => {
    const away = endpoint("/away", OPEN, { allowCidrs: ranges("203.0.113.0/24") });
    const forwarded = { "x-forwarded-for": "203.0.113.9" };
    webhooks.use([away]);
    expect(await webhooks.post("/away", forwarded, "x")).toMatchObject(UNAUTHORIZED);
    webhooks.use([away], { trustedProxies: ranges("127.0.0.1") });
    expect((await webhooks.post("/away", forwarded, "x")).status).toBe(202);
    expect(await webhooks.post("/away", {}, "x")).toMatchObject(UNAUTHORIZED);
    webhooks.use([endpoint("/here", OPEN, { allowCidrs: ranges("127.0.0.0/8") })], {
      trustedProxies: ranges("127.0.0.1"),
    });
    expect(await webhooks.post("/here", { "x-forwarded-for": "198.51.100.1" }, "x")).toMatchObject(
      UNAUTHORIZED,
    );
  });
});

/** Enough headers for Node to drop some by default. */
const FILLERS = Array<string>(1_500).fill("a: b");

describe("among more headers than Node keeps by default", () => {
  let webhooks: WebhooksUnderTest;
  beforeAll(async () => {
    const allowCidrs = ranges("203.0.113.0/24");
    webhooks = await startWebhooks(
      [
        endpoint("/away", OPEN, { allowCidrs }),
        endpoint("/bearer", { mode: "bearer", secrets: named("t0ken") }),
        endpoint("/hmac", { mode: "hmac-sha256", secrets: named("secret") }),
      ],
      { config: { trustedProxies: ranges("127.0.0.1") } },
    );
  });
  afterAll(() => webhooks?.stop());

  it("the address that the proxy added last is used", async () => {
    const lines = ["x-forwarded-for: 203.0.113.9", ...FILLERS, "x-forwarded-for: 198.51.100.66"];
    expect(await webhooks.postLines("/away", lines)).toMatchObject(UNAUTHORIZED);
  });

  it("a second bearer token is seen, and so is a second signature that is wrong", async () => {
    const bearer = ["authorization: Bearer t0ken", ...FILLERS, "authorization: Bearer other"];
    expect(await webhooks.postLines("/bearer", bearer)).toMatchObject(UNAUTHORIZED);
    const good = `x-signature-256: ${createHmac("sha256", "secret").update("x").digest("hex")}`;
    const bad = `x-hub-signature-256: ${"0".repeat(64)}`;
    expect(await webhooks.postLines("/hmac", [good, ...FILLERS, bad], "x")).toMatchObject(UNAUTHORIZED);
    expect((await webhooks.postLines("/hmac", [good, ...FILLERS], "x")).status).toBe(202);
  });
});

/** Makes the checked part of a request, with addresses that a test's own socket cannot have. */
const from = (remoteAddress: string, ...forwarded: readonly string[]) =>
  ({ remoteAddress, headerValues: () => forwarded }) as AddressedRequest;

describe("the sender's address", () => {
  const ALLOWED = ranges("203.0.113.0/24", "2001:db8:1::/48", "198.51.100.7");
  const PROXIES = ranges("10.0.0.0/8", "fd00::/8");
  const isAllowed = createSourceCheck({ allowCidrs: ALLOWED, trustedProxies: PROXIES });

  it.each([
    ["an IPv4 address in a range", from("203.0.113.255"), true],
    ["one next to it", from("203.0.114.0"), false],
    ["a single address", from("198.51.100.7"), true],
    ["the one after it", from("198.51.100.8"), false],
    ["IPv4 through an IPv6 socket", from("::ffff:203.0.113.1"), true],
    ["the same in hex", from("::ffff:cb00:7101"), true],
    ["another IPv4 through an IPv6 socket", from("::ffff:192.0.2.1"), false],
    ["an IPv6 address in a range", from("2001:db8:1:ffff::1"), true],
    ["one next to it", from("2001:db8:2::1"), false],
    ["a link-local address with its zone", from("fe80::1%eth0"), false],
    ["no address, because the connection is gone", from(""), false],
    ["an address forwarded by a stranger", from("192.0.2.1", "203.0.113.1"), false],
    ["an address forwarded by a trusted proxy", from("10.1.2.3", "203.0.113.1"), true],
    ["another address forwarded by it", from("10.1.2.3", "192.0.2.1"), false],
    ["an address that the client sent to the proxy", from("10.1.2.3", "203.0.113.1, 192.0.2.1"), false],
    ["two proxies", from("10.1.2.3", "192.0.2.9, 203.0.113.1, 10.9.9.9"), true],
    ["the header in two lines", from("10.1.2.3", "192.0.2.9", "203.0.113.1, 10.9.9.9"), true],
    [
      "the header in two lines, the last with another address",
      from("10.1.2.3", "203.0.113.1", "192.0.2.9"),
      false,
    ],
    ["an IPv6 proxy", from("fd00::1", "2001:db8:1::5"), true],
    ["addresses with ports", from("10.1.2.3", "203.0.113.1:4711"), true],
    ["IPv6 in brackets, with a port", from("fd00::1", "[2001:db8:1::5]:4711"), true],
    ["a proxy that sends no X-Forwarded-For", from("10.1.2.3"), false],
    ["proxies only", from("10.1.2.3", "10.1.2.4"), false],
    ["text that is no address", from("10.1.2.3", "203.0.113.1, unknown"), false],
    ["an empty element", from("10.1.2.3", "203.0.113.1,"), false],
  ])("%s", (_, request, expected) => {
    expect(isAllowed(request)).toBe(expected);
  });

  it("Without trusted proxies the header is ignored", () => {
    const direct = createSourceCheck({ allowCidrs: ALLOWED, trustedProxies: [] });
    expect(direct(from("10.1.2.3", "203.0.113.1"))).toBe(false);
    expect(direct(from("203.0.113.1", "192.0.2.1"))).toBe(true);
  });

  it("A range of length 0 matches every address of its family", () => {
    const anyIpv4 = createSourceCheck({ allowCidrs: ranges("0.0.0.0/0"), trustedProxies: [] });
    expect([anyIpv4(from("192.0.2.1")), anyIpv4(from("2001:db8::1"))]).toEqual([true, false]);
  });
});
