import { isIP } from "node:net";
import type { IpRange } from "./config.ts";

/** `address/bits`, or one address alone. IPv4 written as IPv6 is refused: requests are compared as IPv4. */
export function parseIpRange(text: string): IpRange | undefined {
  const [, address = "", bits] = /^([0-9a-fA-F:.]+)(?:\/(0|[1-9][0-9]{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0 || /^::ffff:/i.test(address)) return undefined;
  const allBits = version === 4 ? 32 : 128;
  const prefixBits = bits === undefined ? allBits : Number(bits);
  return prefixBits > allBits ? undefined : { address, prefixBits, family: version === 4 ? "ipv4" : "ipv6" };
}
