import type { Logger } from "pino";
import { boundedCache } from "../../core/bounded-cache.ts";
import type { Clock } from "../../core/clock.ts";
import { GatewayError } from "../../core/errors.ts";
import { priceUnavailable } from "../../x402/prices/price-source.ts";
import { ProofThread } from "./proof-thread.ts";

/** Proof of work for one service, as the engine accepts it. */
export interface Proof {
  /** 48 bytes. */
  readonly proof: Uint8Array;
  /** Unix seconds. The engine accepts the proof within 30 s of it. */
  readonly timestamp: bigint;
}

/** Work on one service's proof, shared by all requests for it. */
interface Order {
  readonly serviceId: bigint;
  readonly result: Promise<Proof>;
  readonly resolve: (proof: Proof) => void;
  readonly reject: (error: unknown) => void;
  /** Requests that wait for the result. */
  askers: number;
  /** Timer that runs while no request waits for the work in progress, and that then ends the work. */
  giveUpTimer?: NodeJS.Timeout;
  givenUp: boolean;
}

/**
 * Time for which a proof is used. It is 10 s less than the engine allows, because clocks differ and the call takes
 * time.
 */
const USABLE_SECS = 20n;
/**
 * Time after which a search starts again with a new timestamp. No work is lost, because each hash is an independent
 * chance.
 */
const MAX_SEARCH_MS = 10_000;
/**
 * Time for which work continues without a request. Together with the 10 s for which a request waits, work lasts up to
 * 25 s, because hard proofs take longer than a request may wait.
 */
const MAX_UNWANTED_MS = 15_000;
const MAX_WAITING = 64;
const MAX_PROOFS = 1024;

/**
 * Scheduler of proofs of work. One thread makes one proof at a time. Anyone can ask for the price of any service, as fast as
 * they like, so preferred services (known services, and services that the engine has quoted) go first and displace others.
 */
export class ProofMaker {
  readonly #difficulty: number;
  readonly #isKnownService: (serviceId: bigint) => boolean;
  readonly #maxUnwantedMs: number;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #thread = new ProofThread();
  readonly #proofs = boundedCache<bigint, Proof>(MAX_PROOFS);
  readonly #quoted = boundedCache<bigint, true>(MAX_PROOFS);
  /** Orders, sorted by their arrival. */
  readonly #waiting = new Map<bigint, Order>();
  #current: Order | undefined;
  #stopped = false;

  /** @param parts `difficulty` is in leading zero bits; work without askers goes on for `maxUnwantedMs` */
  constructor(parts: {
    readonly difficulty?: number;
    readonly isKnownService?: ((serviceId: bigint) => boolean) | undefined;
    readonly maxUnwantedMs?: number;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#difficulty = parts.difficulty ?? 20;
    this.#isKnownService = parts.isKnownService ?? (() => false);
    this.#maxUnwantedMs = parts.maxUnwantedMs ?? MAX_UNWANTED_MS;
    this.#clock = parts.clock;
    this.#logger = parts.logger;
  }

  /**
   * Returns a proof that is young enough to be sent. Aborting the signal leaves the work to go on for a while for the
   * next request, as long as no other service waits.
   * @throws GatewayError `price_unavailable` when too many services wait or the thread died, `shutting_down`; the
   * signal's reason once it is aborted
   */
  async proofFor(serviceId: bigint, signal?: AbortSignal): Promise<Proof> {
    if (this.#stopped) throw stopping();
    signal?.throwIfAborted();
    const proof = this.#usableProof(serviceId);
    if (proof !== undefined) return proof;

    const order = this.#orderFor(serviceId);
    order.askers += 1;
    order.givenUp = false;
    clearTimeout(order.giveUpTimer);
    if (this.#current !== undefined && this.#givesWay(this.#current)) this.#thread.cancel();
    void this.#work();
    try {
      return await unlessAborted(order.result, signal);
    } finally {
      order.askers -= 1;
      if (order.askers === 0) this.#abandon(order);
    }
  }

  /** Discards a proof that the engine refused. */
  drop(serviceId: bigint, proof: Proof): void {
    if (this.#proofs.peek(serviceId) === proof) this.#proofs.delete(serviceId);
  }

  /** Marks a service that the engine has quoted as preferred. */
  prefer(serviceId: bigint): void {
    this.#quoted.set(serviceId, true);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const orders = [...this.#waiting.values(), ...(this.#current ? [this.#current] : [])];
    this.#waiting.clear();
    for (const order of orders) order.reject(stopping());
    await this.#thread.stop();
  }

  #usableProof(serviceId: bigint): Proof | undefined {
    const proof = this.#proofs.get(serviceId);
    return proof !== undefined && this.#nowSecs() < proof.timestamp + USABLE_SECS ? proof : undefined;
  }

  #orderFor(serviceId: bigint): Order {
    if (this.#current?.serviceId === serviceId) return this.#current;
    const found = this.#waiting.get(serviceId);
    if (found !== undefined) return found;
    if (this.#waiting.size >= MAX_WAITING) this.#makeRoomFor(serviceId);
    const order = createOrder(serviceId);
    this.#waiting.set(serviceId, order);
    return order;
  }

  #makeRoomFor(serviceId: bigint): void {
    const displaced = [...this.#waiting.values()].findLast((order) => !this.#isPreferred(order.serviceId));
    if (!this.#isPreferred(serviceId) || displaced === undefined) throw tooMany();
    this.#waiting.delete(displaced.serviceId);
    displaced.reject(tooMany());
  }

  /** Works on one order after another until none waits. */
  async #work(): Promise<void> {
    if (this.#current !== undefined) return;
    for (let order = this.#takeNext(); order !== undefined; order = this.#takeNext()) {
      const { serviceId } = order;
      try {
        const proof = await this.#search(order);
        if (proof !== undefined) {
          this.#proofs.set(serviceId, proof);
          order.resolve(proof);
        } else if (order.askers > 0 && !this.#stopped) {
          this.#waiting.set(serviceId, order);
        }
      } catch (error) {
        this.#logger.error({ err: error, serviceId }, "a proof of work could not be made");
        order.reject(priceUnavailable("a proof of work could not be made", error));
      }
    }
  }

  #takeNext(): Order | undefined {
    this.#current = this.#firstWaiting();
    if (this.#current !== undefined) this.#waiting.delete(this.#current.serviceId);
    return this.#current;
  }

  /** Searches until there is a proof. @returns undefined once the order is given up or gives way to another */
  async #search(order: Order): Promise<Proof | undefined> {
    while (!order.givenUp && !this.#stopped && !this.#givesWay(order)) {
      const timestamp = this.#nowSecs();
      const challenge = { id: order.serviceId, timestamp, bits: this.#difficulty };
      const proof = await this.#thread.solve(challenge, MAX_SEARCH_MS);
      if (proof !== undefined) return { proof, timestamp };
    }
    return undefined;
  }

  /** Returns true if an order waits that goes ahead of the order in progress. */
  #givesWay({ serviceId, askers }: Order): boolean {
    const next = this.#firstWaiting();
    if (next === undefined) return false;
    const isNextPreferred = this.#isPreferred(next.serviceId);
    return isNextPreferred === this.#isPreferred(serviceId) ? askers === 0 : isNextPreferred;
  }

  #firstWaiting(): Order | undefined {
    const orders = [...this.#waiting.values()];
    return orders.find(({ serviceId }) => this.#isPreferred(serviceId)) ?? orders[0];
  }

  #isPreferred(serviceId: bigint): boolean {
    return this.#isKnownService(serviceId) || this.#quoted.has(serviceId);
  }

  /** Handles an order whose requests have all gone: work in progress goes on for a while, unless another order waits. */
  #abandon(order: Order): void {
    if (this.#waiting.get(order.serviceId) === order) this.#waiting.delete(order.serviceId);
    if (order !== this.#current) return;
    if (this.#givesWay(order)) this.#thread.cancel();
    order.giveUpTimer = setTimeout(() => {
      order.givenUp = true;
      if (order === this.#current) this.#thread.cancel();
    }, this.#maxUnwantedMs).unref();
  }

  #nowSecs(): bigint {
    return BigInt(Math.floor(this.#clock() / 1000));
  }
}

function createOrder(serviceId: bigint): Order {
  let resolve: Order["resolve"] = () => undefined;
  let reject: Order["reject"] = () => undefined;
  const result = new Promise<Proof>((...settle) => {
    [resolve, reject] = settle;
  });
  // All requests may have ended by the time it fails.
  result.catch(() => undefined);
  return { serviceId, result, resolve, reject, askers: 0, givenUp: false };
}

function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function tooMany(): GatewayError {
  return priceUnavailable("too many services wait for a proof of work");
}

function stopping(): GatewayError {
  return new GatewayError("shutting_down", "jobgate is shutting down; ask again once it is back.");
}
