import type { Simulation } from "./simulation.ts";

export interface PeerRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface PeerAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly text?: string;
  /** The connection breaks in the middle of it. */
  readonly isCut?: boolean;
}

/** A host that gateways call: a push target, or a buyer who is called back. */
export interface Peer {
  readonly host: string;
  isUp(): boolean;
  /** A gateway begins a request. */
  sends(request: PeerRequest): void;
  /** A gateway has an answer, or waits no longer. */
  ends?(request: PeerRequest): void;
  /** @param answer receives undefined when the connection breaks */
  take(
    request: PeerRequest,
    addresses: readonly string[],
    answer: (answer: PeerAnswer | undefined) => void,
  ): void;
}

const peers = new Map<string, Peer>();

/** Makes these the hosts that can be called. */
export function usePeers(used: readonly Peer[]): void {
  peers.clear();
  for (const peer of used) peers.set(peer.host, peer);
}

export function peerOf(host: string): Peer {
  const peer = peers.get(host);
  if (peer === undefined) throw new Error(`there is no ${host}`);
  return peer;
}

const [MIN_UP_MS, MAX_UP_MS] = [2_000, 40_000];
const MAX_DOWN_MS = 10_000;

/** Takes a host down now and then, with the requests that it has not answered. */
export class Restarts {
  readonly #simulation: Simulation;
  readonly #host: string;
  readonly #unanswered = new Set<() => void>();
  #isUp = true;

  constructor(simulation: Simulation, host: string) {
    this.#simulation = simulation;
    this.#host = host;
    this.#next();
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Runs a function later, or `onLost` if the host goes down before. */
  later(ms: number, run: () => void, onLost: () => void): void {
    const { world } = this.#simulation;
    let isOver = false;
    const end = (then: () => void) => {
      if (isOver) return;
      isOver = true;
      this.#unanswered.delete(lost);
      then();
    };
    const lost = () => end(onLost);
    this.#unanswered.add(lost);
    this.#simulation.at(ms, world, () => end(run));
  }

  #next(): void {
    const run = this.#simulation;
    run.at(run.delay(`${this.#host} stays up`, MIN_UP_MS, MAX_UP_MS), run.world, () => {
      if (run.isHealed) return;
      if (!run.fault(`${this.#host} restarts`, 0.5)) return this.#next();
      this.#isUp = false;
      for (const lost of this.#unanswered) lost();
      run.at(run.delay(`${this.#host} stays down`, 10, MAX_DOWN_MS), run.world, () => {
        this.#isUp = true;
        this.#next();
      });
    });
  }
}
