import { BlockList, isIP } from "node:net";
import { boundedCache } from "../core/bounded-cache.ts";
import type { IpRange } from "../core/network-address.ts";
import type { HttpRequest } from "./request.ts";

/** The parts of a request that name the client's address. */
export type AddressedRequest = Pick<HttpRequest, "remoteAddress" | "headerValues">;

/** Returns the client's address, or undefined when a trusted proxy forwarded something that is not an address. */
export type AddressFinder = (request: AddressedRequest) => string | undefined;

/**
 * Makes a finder of clients' addresses. Behind proxies that is the rightmost address in `X-Forwarded-For` that is not a
 * trusted proxy's own: everything to its left is only that peer's claim. Without trusted proxies the header is ignored.
 */
export function createAddressFinder(trustedProxies: readonly IpRange[]): AddressFinder {
  const isProxy = matcher(trustedProxies);
  return (request) => {
    let source = toAddress(request.remoteAddress);
    if (source === undefined || !isProxy(source)) return source;
    const forwarded = request.headerValues("x-forwarded-for").join(",");
    for (const hop of forwarded === "" ? [] : forwarded.split(",").reverse()) {
      source = toAddress(hop.trim());
      if (source === undefined || !isProxy(source)) return source;
    }
    return source;
  };
}

/** Makes a check that a request comes from one of the allowed addresses. */
export function createSourceCheck(options: {
  readonly allowCidrs: readonly IpRange[];
  readonly trustedProxies: readonly IpRange[];
}): (request: AddressedRequest) => boolean {
  const isAllowed = matcher(options.allowCidrs);
  const addressOf = createAddressFinder(options.trustedProxies);
  return (request) => {
    const source = addressOf(request);
    return source !== undefined && isAllowed(source);
  };
}

/** Parses an address as proxies write it, and drops its port and zone. */
function toAddress(text: string): string | undefined {
  if (isIP(text) !== 0 && !text.includes("%")) return text;
  const [, bracketed, ipv4] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/.exec(text) ?? [];
  const address = (bracketed ?? ipv4 ?? text).replace(/%.*$/, "");
  return isIP(address) === 0 ? undefined : address;
}

/** Bound on the addresses whose match is remembered. */
const MAX_REMEMBERED = 1_000;

/**
 * BlockList also matches IPv4 addresses that came through an IPv6 socket. It takes 4 µs for an address, so the last
 * answers are kept.
 */
function matcher(ranges: readonly IpRange[]): (address: string) => boolean {
  if (ranges.length === 0) return () => false;
  const list = new BlockList();
  for (const { address, prefixBits, family } of ranges) list.addSubnet(address, prefixBits, family);
  const known = boundedCache<string, boolean>(MAX_REMEMBERED);
  return (address) => {
    const before = known.get(address);
    if (before !== undefined) return before;
    const isMatch = list.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");
    known.set(address, isMatch);
    return isMatch;
  };
}
