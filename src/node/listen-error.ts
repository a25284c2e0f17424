import { addressText, type BindAddress } from "../core/network-address.ts";

/** Problem for each error code, with what to do about it. */
const PROBLEMS: readonly (readonly [code: RegExp, problem: string])[] = [
  [/EADDRINUSE/, "is in use by another process; stop that process, or set another port"],
  [
    /EACCES|EPERM/,
    "is not permitted to this user; set a port from 1024 on, or grant the process CAP_NET_BIND_SERVICE",
  ],
  [/EADDRNOTAVAIL/, "is not an address of this machine; set one of its own, or 0.0.0.0 for all of them"],
  [/ENOTFOUND|EAI_AGAIN|Name resolution failed/, "cannot be resolved; set an IP address"],
];

/** Describes why a listener could not bind its address, and what to do. */
export function listenProblem(error: unknown, key: string, address: BindAddress): string {
  const { code = "", message = String(error) } = error as NodeJS.ErrnoException;
  const known = PROBLEMS.find(([pattern]) => pattern.test(`${code} ${message}`));
  // Errors of Unix sockets already say what to do.
  if (known === undefined || address.kind === "unix") return `${key}: cannot be used: ${message}`;
  return `${key}: ${addressText(address)} ${known[1]}`;
}
