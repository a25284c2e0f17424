import { Resolver } from "node:dns/promises";
import type { LookupFunction } from "node:net";

/** Queries name servers. */
export type NameResolver = Pick<Resolver, "resolve4" | "resolve6">;

/** Rule for the addresses that a name may resolve to. */
export interface AddressGuard {
  allows(address: string): boolean;
}

/** Time for one name server's answer. */
const TIMEOUT_MS = 3_000;

/**
 * Queries only name servers, because the system's resolver would also resolve the hosts of this machine, and would block a
 * thread.
 */
export function createResolver(): NameResolver {
  return new Resolver({ timeout: TIMEOUT_MS, tries: 2 });
}

/** The name resolves to an address that callbacks must not reach. */
class GuardedAddress extends Error {
  override readonly name = "GuardedAddress";
  /** Shown as the reason. */
  readonly code = "its name resolves to an address that is not public";
}

/**
 * Makes the only lookup of a connection. The connection uses only the addresses that were checked here. A name with one
 * forbidden address is refused completely, because the next connection might use that address.
 */
export function guardedLookup(guard: AddressGuard, resolver: NameResolver): LookupFunction {
  return (hostname, { all }, callback) => {
    resolveAll(resolver, hostname)
      .then((found) => {
        if (!found.every(({ address }) => guard.allows(address))) throw new GuardedAddress();
        return found;
      })
      .then(
        (found) => (all ? callback(null, found) : callback(null, found[0]?.address ?? "", found[0]?.family)),
        (error: NodeJS.ErrnoException) => callback(error, []),
      );
  };
}

async function resolveAll(resolver: NameResolver, name: string) {
  const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const found = [
    ...(ipv4.status === "fulfilled" ? ipv4.value.map((address) => ({ address, family: 4 })) : []),
    ...(ipv6.status === "fulfilled" ? ipv6.value.map((address) => ({ address, family: 6 })) : []),
  ];
  if (found.length === 0) throw Object.assign(new Error(`${name} has no address`), { code: "ENOTFOUND" });
  return found;
}
