import { BlockList, isIP } from "node:net";

/**
 * IPv4 ranges that are not the public internet, or that reach other addresses through it.
 * https://www.iana.org/assignments/iana-ipv4-special-registry
 */
const SPECIAL_IPV4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const;

/** Addresses outside the special ranges at which clouds serve only their own customers: metadata, names, storage. */
const PLATFORM_IPV4 = [
  // Azure: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  ["168.63.129.16", 32],
  // IBM Cloud, service network and private endpoints: https://cloud.ibm.com/docs/cloud-infrastructure?topic=cloud-infrastructure-ibm-cloud-ip-ranges
  ["161.26.0.0", 16],
  ["166.8.0.0", 14],
] as const;

/**
 * IPv6 ranges within 2000::/3 that are not public. No address outside 2000::/3 is public, which excludes fc00::/7,
 * fe80::/10, ff00::/8, and addresses that contain an IPv4 address (::ffff:0:0/96, 64:ff9b::/96).
 * https://www.iana.org/assignments/iana-ipv6-special-registry
 */
const SPECIAL_IPV6 = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const;

const special = new BlockList();
for (const [network, bits] of [...SPECIAL_IPV4, ...PLATFORM_IPV4]) special.addSubnet(network, bits);
for (const [network, bits] of SPECIAL_IPV6) special.addSubnet(network, bits, "ipv6");
const globalIpv6 = new BlockList();
globalIpv6.addSubnet("2000::", 3, "ipv6");

/** Returns true for an IP address that anyone on the internet can reach. */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 4) return !special.check(address);
  return version === 6 && globalIpv6.check(address, "ipv6") && !special.check(address, "ipv6");
}
