import { LRUCache } from "lru-cache";
import type { Logger } from "pino";
import type { Clock } from "../core/clock.ts";
import { GatewayError } from "../core/errors.ts";
import { priceUnavailable } from "./price-unavailable.ts";
import { createProofThread } from "./proof-thread.ts";

/** A proof of work for one service, as the engine takes it. */
export interface Proof {
  /** 48 bytes. */
  readonly proof: Uint8Array;
  /** Unix seconds. The engine takes the proof within 30 s of it. */
  readonly timestamp: bigint;
}

/** Makes proofs of work on a thread of its own. Those who ask for one service at a time share one. */
export interface ProofMaker {
  /**
   * A proof that is young enough to be sent. Work that every asker has left goes on for a while, for the next who asks,
   * as long as nobody waits for another.
   * @throws GatewayError `price_unavailable` when too many services wait, or the thread died; the signal's
   * reason when it was aborted
   */
  proofFor(serviceId: bigint, signal?: AbortSignal): Promise<Proof>;
  /** A proof that the engine refused is not given out again. */
  drop(serviceId: bigint, proof: Proof): void;
  /** Lets a service that the engine has quoted go ahead of others, like those that are known beforehand. */
  prefer(serviceId: bigint): void;
  stop(): Promise<void>;
}

export interface ProofMakerOptions {
  /** Leading zero bits. Default: 20. */
  readonly difficulty?: number;
  /**
   * Services that go ahead of others from the start: anybody can ask for the price of any service, and as fast as they
   * like. Default: none.
   */
  readonly isKnownService?: (serviceId: bigint) => boolean;
  /** How long work goes on that every asker has left. Default: 15 s. */
  readonly maxUnwantedMs?: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The work on one service's proof, and those who wait for it. */
interface Order {
  readonly serviceId: bigint;
  readonly askers: Set<{ resolve(proof: Proof): void; reject(error: unknown): void }>;
  /** Once all of them have left work in hand: until it is given up. */
  unwanted?: NodeJS.Timeout;
  givenUp: boolean;
}

/** 10 s less than the engine allows, for clocks that differ and the call itself. */
const USABLE_SECS = 20n;
/** Then it is begun anew with a younger timestamp; nothing is lost, since each hash is a new chance. */
const MAX_WORK_MS = 10_000;
/** With the 10 s of an asker, work goes on for 25 s in all: hard proofs take longer than anybody is kept waiting. */
const MAX_UNWANTED_MS = 15_000;
const MAX_WAITING = 64;
const MAX_PROOFS = 1024;

export function createProofMaker(options: ProofMakerOptions): ProofMaker {
  const { difficulty = 20, maxUnwantedMs = MAX_UNWANTED_MS, clock, logger } = options;
  const { isKnownService = () => false } = options;
  const thread = createProofThread();
  const proofs = new LRUCache<bigint, Proof>({ max: MAX_PROOFS });
  const quoted = new LRUCache<bigint, true>({ max: MAX_PROOFS });
  const waiting = new Map<bigint, Order>();
  let current: Order | undefined;
  let stopped = false;

  const nowSecs = () => BigInt(Math.floor(clock() / 1000));

  const isPreferred = (serviceId: bigint) => isKnownService(serviceId) || quoted.has(serviceId);

  function usableProof(serviceId: bigint): Proof | undefined {
    const proof = proofs.get(serviceId);
    return proof !== undefined && nowSecs() < proof.timestamp + USABLE_SECS ? proof : undefined;
  }

  function orderFor(serviceId: bigint): Order {
    if (current?.serviceId === serviceId) return current;
    const found = waiting.get(serviceId);
    if (found !== undefined) return found;
    if (waiting.size >= MAX_WAITING) makeRoomFor(serviceId);
    const order: Order = { serviceId, askers: new Set(), givenUp: false };
    waiting.set(serviceId, order);
    return order;
  }

  function makeRoomFor(serviceId: bigint): void {
    const youngestUnknown = [...waiting.values()].findLast((order) => !isPreferred(order.serviceId));
    if (!isPreferred(serviceId) || youngestUnknown === undefined) throw tooMany();
    waiting.delete(youngestUnknown.serviceId);
    for (const asker of youngestUnknown.askers) asker.reject(tooMany());
  }

  function firstWaiting(): Order | undefined {
    const orders = [...waiting.values()];
    return orders.find(({ serviceId }) => isPreferred(serviceId)) ?? orders[0];
  }

  function nextOrder(): Order | undefined {
    const order = firstWaiting();
    if (order !== undefined) waiting.delete(order.serviceId);
    return order;
  }

  /** Whether somebody waits who goes ahead of the work in hand. */
  function givesWay({ serviceId, askers }: Order): boolean {
    const next = firstWaiting();
    if (next === undefined) return false;
    const isNextPreferred = isPreferred(next.serviceId);
    return isNextPreferred === isPreferred(serviceId) ? askers.size === 0 : isNextPreferred;
  }

  async function work(): Promise<void> {
    if (current !== undefined) return;
    for (current = nextOrder(); current !== undefined; current = nextOrder()) {
      const { serviceId, askers } = current;
      try {
        const proof = await make(current);
        if (proof === undefined) {
          if (askers.size > 0) waiting.set(serviceId, current);
          continue;
        }
        proofs.set(serviceId, proof);
        for (const asker of askers) asker.resolve(proof);
      } catch (error) {
        logger.error({ err: error, serviceId }, "no proof of work could be made");
        for (const asker of askers) asker.reject(priceUnavailable("no proof of work could be made", error));
      }
    }
  }

  function isWanted({ askers, givenUp }: Order): boolean {
    return askers.size > 0 || !(givenUp || stopped);
  }

  /** @returns undefined once it is given up, or when it gives way to another */
  async function make(order: Order): Promise<Proof | undefined> {
    const { serviceId } = order;
    while (isWanted(order) && !givesWay(order)) {
      const timestamp = nowSecs();
      const proof = await thread.solve({ id: serviceId, timestamp, bits: difficulty }, MAX_WORK_MS);
      if (proof !== undefined) return { proof, timestamp };
    }
    return undefined;
  }

  function join(order: Order, signal: AbortSignal | undefined): Promise<Proof> {
    return new Promise((resolve, reject) => {
      const asker = {
        resolve(proof: Proof) {
          signal?.removeEventListener("abort", leave);
          resolve(proof);
        },
        reject(error: unknown) {
          signal?.removeEventListener("abort", leave);
          reject(error);
        },
      };
      function leave() {
        order.askers.delete(asker);
        if (order.askers.size === 0) abandon(order);
        reject(signal?.reason);
      }
      order.askers.add(asker);
      clearTimeout(order.unwanted);
      order.givenUp = false;
      signal?.addEventListener("abort", leave, { once: true });
    });
  }

  function abandon(order: Order): void {
    if (waiting.get(order.serviceId) === order) waiting.delete(order.serviceId);
    if (order !== current) return;
    if (givesWay(order)) thread.cancel();
    order.unwanted = setTimeout(() => giveUp(order), maxUnwantedMs).unref();
  }

  function giveUp(order: Order): void {
    order.givenUp = true;
    if (order === current) thread.cancel();
  }

  return {
    async proofFor(serviceId, signal) {
      if (stopped) throw stopping();
      signal?.throwIfAborted();
      const proof = usableProof(serviceId);
      if (proof !== undefined) return proof;
      const asked = join(orderFor(serviceId), signal);
      if (current !== undefined && givesWay(current)) thread.cancel();
      void work();
      return asked;
    },
    drop(serviceId, proof) {
      if (proofs.peek(serviceId) === proof) proofs.delete(serviceId);
    },
    prefer: (serviceId) => void quoted.set(serviceId, true),
    async stop() {
      stopped = true;
      const orders = [...waiting.values(), ...(current ? [current] : [])];
      waiting.clear();
      for (const { askers } of orders) {
        for (const asker of askers) asker.reject(stopping());
        askers.clear();
      }
      await thread.stop();
    },
  };
}

function tooMany(): GatewayError {
  return priceUnavailable("too many services wait for a proof of work");
}

function stopping(): GatewayError {
  return new GatewayError("shutting_down", "jobgate is shutting down; ask again once it is back.");
}
