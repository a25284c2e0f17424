import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { oneHostUrls } from "../../../core/network-address.ts";
import { BoundedClient, type PostgresAddress, type PostgresTimeouts } from "./connect.ts";
import { NoPrimary, ReadOnlyServer } from "./database-errors.ts";
import { requirePrimary } from "./session.ts";

/** Pause before a standby, which may be promoted, is checked again. */
const RECHECK_MS = 200;

/** The servers that the URL lists. One of them accepts writes, and a failover changes which one does. */
export class Servers {
  readonly #address: PostgresAddress;
  readonly #timeouts: PostgresTimeouts;
  readonly #logger: Logger | undefined;
  readonly #onMoved: () => void;
  #current = 0;
  #isLost = false;
  #search: Promise<void> | undefined;

  constructor(options: {
    readonly address: PostgresAddress;
    readonly timeouts: PostgresTimeouts;
    readonly logger: Logger | undefined;
    /** Called when another server is in use, so that connections to the former server are useless. */
    readonly onMoved: () => void;
  }) {
    const { address, timeouts, logger, onMoved } = options;
    this.#address = address;
    this.#timeouts = timeouts;
    this.#logger = logger;
    this.#onMoved = onMoved;
  }

  /** Address of the server in use. */
  get address(): PostgresAddress {
    return this.#addresses()[this.#current] as PostgresAddress;
  }

  /** Returns true if a search can find another server. */
  get areSeveral(): boolean {
    return this.#addresses().length > 1;
  }

  /** True after a search that found no server. Another search is then due before a connection is opened. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * Finds the server that accepts writes, and uses it. Checks all servers at once, because a server that is gone does
   * not answer. Searches that begin while one is in progress share its result.
   * @throws NoPrimary
   */
  search(): Promise<void> {
    this.#search ??= this.#findPrimary().finally(() => {
      this.#search = undefined;
    });
    return this.#search;
  }

  async #findPrimary(): Promise<void> {
    const addresses = this.#addresses();
    const end = new AbortController();
    const checks = addresses.map((address) => this.#check(address, end.signal));
    try {
      const found = await Promise.any(checks.map((check, index) => check.then(() => index)));
      this.#isLost = false;
      if (found !== this.#current) this.#moveTo(found);
    } catch (error) {
      this.#isLost = true;
      const { errors } = error as AggregateError;
      throw new NoPrimary(addresses.map(hostOf), errors);
    } finally {
      end.abort();
    }
  }

  /** Resolves once the server accepts writes. A standby has as much time to be promoted as a connection has to open. */
  async #check(address: PostgresAddress, signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + this.#timeouts.connectMs;
    const client = new BoundedClient(address, this.#timeouts);
    // Its queries also reject. Without a listener, the event would end the process.
    client.on("error", () => undefined);
    signal.addEventListener("abort", () => client.abort(), { once: true });
    try {
      await client.connect();
      while (!(await isPrimary(client))) {
        if (performance.now() > deadline) throw new ReadOnlyServer();
        await sleep(RECHECK_MS);
      }
    } finally {
      client.end().catch(() => undefined);
    }
  }

  #moveTo(index: number): void {
    const from = hostOf(this.address);
    this.#current = index;
    this.#logger?.warn({ from, to: hostOf(this.address) }, "another Postgres server takes the writes");
    this.#onMoved();
  }

  #addresses(): PostgresAddress[] {
    return oneHostUrls(this.#address.url).map((url) => ({ ...this.#address, url }));
  }
}

async function isPrimary(client: BoundedClient): Promise<boolean> {
  return requirePrimary(client).then(
    () => true,
    (error) => (error instanceof ReadOnlyServer ? false : Promise.reject(error)),
  );
}

/** Returns the host and port of an address. */
function hostOf({ url }: PostgresAddress): string {
  const { host, searchParams } = new URL(url);
  return host || (searchParams.get("host") ?? "localhost");
}
