import type { WireVersion } from "./version.ts";
import { VERSION_2 } from "./version-2.ts";

/** The versions of x402 that a build takes payments in: the current one first, then what its parts add. */
export class Versions implements Iterable<WireVersion> {
  readonly current = VERSION_2;
  readonly added: readonly WireVersion[];

  constructor(added: readonly WireVersion[] = []) {
    this.added = added;
  }

  [Symbol.iterator](): Iterator<WireVersion> {
    return [this.current, ...this.added].values();
  }

  /** Returns the version with a number; undefined if this build does not have it. */
  find(number: unknown): WireVersion | undefined {
    return [...this].find((version) => version.number === number);
  }

  /** Returns the CAIP-2 network that any version names so: facilitators may answer in another one than they were asked in. */
  networkOf(name: string): string {
    for (const version of this.added) {
      const network = version.networkOf(name);
      if (network !== undefined) return network;
    }
    return name;
  }
}
