import { BlockList, isIP } from "node:net";

/** Address that a listener binds. */
export type BindAddress =
  | TcpAddress
  | {
      readonly kind: "unix";
      readonly path: string;
    };

export interface TcpAddress {
  readonly kind: "tcp";
  readonly host: string;
  readonly port: number;
}

/** Range of IP addresses, in the form that `BlockList.addSubnet` takes. */
export interface IpRange {
  readonly address: string;
  readonly prefixBits: number;
  readonly family: "ipv4" | "ipv6";
}

const UNIX_PREFIX = "unix:";

/**
 * Parses `host:port`, `[ipv6]:port` or `unix:PATH`. Port 0 lets the system choose.
 * @returns undefined when the text is none of these
 */
export function parseBindAddress(text: string): BindAddress | undefined {
  if (text.startsWith(UNIX_PREFIX)) {
    const path = text.slice(UNIX_PREFIX.length);
    return path === "" ? undefined : { kind: "unix", path };
  }
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined) return undefined;
  const port = Number(match?.[3]);
  const ipv6 = match?.[1] !== undefined;
  if (port > 65_535 || (ipv6 ? isIP(host) !== 6 : isIP(host) !== 4 && !isHostName(host))) return undefined;
  return { kind: "tcp", host, port };
}

/** Returns true if the DNS could have the name. The root's trailing dot must have been removed. */
export function isHostName(host: string): boolean {
  // A last label of digits only is a mistyped IPv4 address, for example 127.0.0.300.
  return (
    host.length <= 253 &&
    host.split(".").every((label) => /^(?!-)[A-Za-z0-9-]{1,63}(?<!-)$/.test(label)) &&
    !/(^|\.)\d+$/.test(host)
  );
}

/** Returns true if two listeners with these addresses use one socket. Port 0 never matches. */
export function isSameAddress(a: BindAddress, b: BindAddress): boolean {
  if (a.kind === "unix" || b.kind === "unix") {
    return a.kind === "unix" && b.kind === "unix" && a.path === b.path;
  }
  return a.port !== 0 && a.port === b.port && a.host.toLowerCase() === b.host.toLowerCase();
}

/** Returns true if only processes on this machine can reach the host: `localhost`, 127.0.0.0/8 or ::1. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return isIP(name) === 4 ? name.startsWith("127.") : name === "::1";
}

const PRIVATE_RANGES = new BlockList();
for (const [network, bits] of [
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["100.64.0.0", 10],
] as const)
  PRIVATE_RANGES.addSubnet(network, bits);
PRIVATE_RANGES.addSubnet("fc00::", 7, "ipv6");

/** Endings of names that the public DNS does not have. A name without a dot is private too. */
const PRIVATE_NAME = /^[^.]+$|\.(internal|local|svc|lan|home\.arpa)$/;

/** Returns true if the host's address or name belongs to a private network. */
export function isPrivateHost(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  const version = isIP(name);
  return version === 0
    ? PRIVATE_NAME.test(name)
    : PRIVATE_RANGES.check(name, version === 4 ? "ipv4" : "ipv6");
}

/** Text that {@link parseBindAddress} reads: `host:port`, `[ipv6]:port` or `unix:PATH`. */
export function addressText(address: BindAddress): string {
  if (address.kind === "unix") return `${UNIX_PREFIX}${address.path}`;
  return `${address.host.includes(":") ? `[${address.host}]` : address.host}:${address.port}`;
}

/** URL at which a client on this machine reaches a listener: `http://host:port`. */
export function localUrl({ host, port }: TcpAddress): string {
  const isEveryInterface = host === "0.0.0.0" || (isIP(host) === 6 && /^[0:]+$/.test(host));
  const reachable = isEveryInterface ? "127.0.0.1" : host;
  return `http://${isIP(reachable) === 6 ? `[${reachable}]` : reachable}:${port}`;
}

/**
 * Parses `address/bits`, or one address. IPv4 in IPv6 notation is refused, because senders are compared as IPv4.
 * @returns undefined when the text is neither
 */
export function parseIpRange(text: string): IpRange | undefined {
  const [, address = "", bits] = /^([0-9a-fA-F:.]+)(?:\/(0|[1-9][0-9]{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0 || /^::ffff:/i.test(address)) return undefined;
  const allBits = version === 4 ? 32 : 128;
  const prefixBits = bits === undefined ? allBits : Number(bits);
  return prefixBits > allBits ? undefined : { address, prefixBits, family: version === 4 ? "ipv4" : "ipv6" };
}

/** Text that {@link parseIpRange} reads, always with its bits. */
export function ipRangeText({ address, prefixBits }: IpRange): string {
  return `${address}/${prefixBits}`;
}

/** Start of a server's URL up to the hosts, and the hosts. */
const HOSTS = /^([a-z]+:\/\/(?:[^/?#]*@)?)([^/?#@]*)/;

/** Returns a URL for each of the hosts that a server's URL lists, in order. */
export function oneHostUrls(url: string): [string, ...string[]] {
  const [start = "", beforeHosts = "", hosts = ""] = HOSTS.exec(url) ?? [];
  const urlOf = (host: string) => `${beforeHosts}${host}${url.slice(start.length)}`;
  const [first = "", ...others] = hosts.split(",");
  return [urlOf(first), ...others.map(urlOf)];
}
