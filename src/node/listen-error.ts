import { addressText, type BindAddress } from "../core/network-address.ts";

/** Problem of each error code, and what to do. */
const PROBLEMS: readonly (readonly [code: RegExp, problem: string])[] = [
  [/EADDRINUSE/, "is in use by another process; stop that process, or set another port"],
  [
    /EACCES|EPERM/,
    "is not permitted to this user; set a port from 1024 on, or grant the process CAP_NET_BIND_SERVICE",
  ],
  [/EADDRNOTAVAIL/, "is not an address of this machine; set one of its own, or 0.0.0.0 for all of them"],
  [/ENOTFOUND|EAI_AGAIN|Name resolution failed/, "cannot be resolved; set an IP address"],
];

/**
 * Says why a listener could not bind its address, and what to do.
 * @param error of Node, or of grpc-js, which has the code in its message only
 */
export function listenProblem(error: unknown, key: string, address: BindAddress): string {
  const { code = "", message = String(error) } = error as NodeJS.ErrnoException;
  const known = PROBLEMS.find(([pattern]) => pattern.test(`${code} ${message}`));
  // Errors of Unix sockets say all of it already.
  if (known === undefined || address.kind === "unix") return `${key}: cannot be used: ${message}`;
  return `${key}: ${addressText(address)} ${known[1]}`;
}
