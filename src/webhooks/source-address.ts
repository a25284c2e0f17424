import { BlockList, isIP } from "node:net";
import type { IpRange } from "../core/network-address.ts";
import type { HttpRequest } from "../http/request.ts";

/** Returns true if a request comes from an address that the endpoint allows. */
export type SourceCheck = (request: HttpRequest) => boolean;

/**
 * Checks the sender's address. Behind proxies that is the rightmost one in `X-Forwarded-For` that is not a trusted
 * proxy's own: everything to its left is only that peer's claim. Without trusted proxies the header is ignored.
 */
export function createSourceCheck(options: {
  readonly allowCidrs: readonly IpRange[];
  readonly trustedProxies: readonly IpRange[];
}): SourceCheck {
  const isAllowed = matcher(options.allowCidrs);
  const isProxy = matcher(options.trustedProxies);
  return (request) => {
    const source = sourceAddress(request, isProxy);
    return source !== undefined && isAllowed(source);
  };
}

/** Returns undefined when a trusted proxy forwarded something that is not an address. */
function sourceAddress(request: HttpRequest, isProxy: (address: string) => boolean): string | undefined {
  let source = toAddress(request.remoteAddress);
  if (source === undefined || !isProxy(source)) return source;
  const forwarded = request.headerValues("x-forwarded-for").join(",");
  for (const hop of forwarded === "" ? [] : forwarded.split(",").reverse()) {
    source = toAddress(hop.trim());
    if (source === undefined || !isProxy(source)) return source;
  }
  return source;
}

/** Parses an address as proxies write it, and drops its port and zone. */
function toAddress(text: string): string | undefined {
  const [, bracketed, ipv4] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+):\d{1,5})$/.exec(text) ?? [];
  const address = (bracketed ?? ipv4 ?? text).replace(/%.*$/, "");
  return isIP(address) === 0 ? undefined : address;
}

/** BlockList also matches IPv4 addresses that came through an IPv6 socket. */
function matcher(ranges: readonly IpRange[]): (address: string) => boolean {
  const list = new BlockList();
  for (const { address, prefixBits, family } of ranges) list.addSubnet(address, prefixBits, family);
  return (address) => list.check(address, isIP(address) === 4 ? "ipv4" : "ipv6");
}
