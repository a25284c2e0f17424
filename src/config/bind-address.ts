import { isIP } from "node:net";
import type { BindAddress, TcpAddress } from "./config.ts";

const UNIX_PREFIX = "unix:";

/** `host:port`, `[ipv6]:port` or `unix:PATH`; undefined when it is none of them. Port 0 lets the system choose. */
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

function isHostName(host: string): boolean {
  // A last label of digits only is an address that went wrong, such as 127.0.0.300.
  return (
    host.split(".").every((label) => /^(?!-)[A-Za-z0-9-]{1,63}(?<!-)$/.test(label)) &&
    !/(^|\.)\d+$/.test(host)
  );
}

/** Whether two listeners given these addresses meet on one socket. Port 0 never meets anything. */
export function isSameAddress(a: BindAddress, b: BindAddress): boolean {
  if (a.kind === "unix" || b.kind === "unix")
    return a.kind === b.kind && "path" in a && "path" in b && a.path === b.path;
  return a.port !== 0 && a.port === b.port && a.host.toLowerCase() === b.host.toLowerCase();
}

/** Whether only processes of this machine can reach a host: `localhost`, 127.0.0.0/8 or ::1. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return isIP(name) === 4 ? name.startsWith("127.") : name === "::1";
}

/** Whether a listener takes connections from every interface. */
function isWildcardHost(host: string): boolean {
  return host === "0.0.0.0" || (isIP(host) === 6 && /^[0:]+$/.test(host));
}

/** `http://host:port` as a client on this machine would reach a listener. */
export function localUrl({ host, port }: TcpAddress): string {
  const reachable = isWildcardHost(host) ? "127.0.0.1" : host;
  return `http://${isIP(reachable) === 6 ? `[${reachable}]` : reachable}:${port}`;
}
