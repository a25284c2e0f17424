import { type Peer, type PeerAnswer, type PeerRequest, Restarts } from "./peers.ts";
import { LEAST, MOST, PRICER_HOST, PRICER_TIMEOUT_MS } from "./priced-jobs.ts";
import type { Process, Simulation } from "./simulation.ts";

/** Answers that name no price, and one that names two. */
const NONSENSE = [
  '{"price":"0.5"}',
  '{"price":0.5}',
  '{"price":"$0.5","price":"$0.6"}',
  '{"price":"-$0.5"}',
  '{"price":"$0.5","to":"anyone"}',
  "half a dollar",
] as const;
const MEAN_CHANGE_MS = 10_000;

/** A price that the program named. */
interface Named {
  readonly by: Process;
  /** Token units. */
  readonly amount: bigint;
  /** Unix milliseconds. */
  readonly atMs: number;
}

/** An operator's program that makes prices: slow, down, changing its mind, and saying nonsense. */
export class SimulatedPricer implements Peer {
  readonly host = PRICER_HOST;
  readonly #simulation: Simulation;
  readonly #restarts: Restarts;
  readonly #askers = new WeakMap<PeerRequest, Process>();
  readonly #named = new Map<string, Named[]>();
  #surcharge = 0n;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
    this.#restarts = new Restarts(simulation, PRICER_HOST);
    this.#change();
  }

  isUp(): boolean {
    return this.#restarts.isUp;
  }

  sends(request: PeerRequest): void {
    this.#askers.set(request, this.#simulation.current);
  }

  /** Returns the prices that it has named for a body. */
  namedFor(body: string): readonly Named[] {
    return this.#named.get(body) ?? [];
  }

  take(request: PeerRequest, _addresses: unknown, answer: (answer: PeerAnswer | undefined) => void): void {
    const run = this.#simulation;
    if (run.fault(`${PRICER_HOST} hangs`, 0.03)) return;
    const isLate = run.fault(`${PRICER_HOST} is late`, 0.05);
    const workMs = isLate ? PRICER_TIMEOUT_MS + 100 : run.delay(`${PRICER_HOST} works`, 1, 800);
    this.#restarts.later(
      workMs,
      () => answer(this.#answer(request)),
      () => answer(undefined),
    );
  }

  #answer(request: PeerRequest): PeerAnswer {
    const run = this.#simulation;
    if (run.fault(`${PRICER_HOST} fails`, 0.05)) return { status: 500, text: '{"price":"$0.5"}' };
    if (run.fault(`${PRICER_HOST} says nonsense`, 0.05))
      return { status: 200, text: run.pick(`${PRICER_HOST} says`, NONSENSE) };
    if (run.fault(`${PRICER_HOST} asks too much`, 0.05)) return priced(MOST + 1n);
    if (run.fault(`${PRICER_HOST} refuses`, 0.05))
      return { status: 200, text: JSON.stringify({ refuse: { status: 422, error: "Not today." } }) };
    const { body } = JSON.parse(String(Buffer.from(request.body))) as { readonly body: string };
    const text = Buffer.from(body, "base64").toString();
    const asked = 10_009n * BigInt(text.length) + this.#surcharge;
    if (run.fault(`${PRICER_HOST} breaks off`, 0.03)) return { ...priced(asked), isCut: true };
    const by = this.#askers.get(request) ?? run.world;
    const named = this.#named.get(text) ?? [];
    this.#named.set(text, [...named, { by, amount: asked < LEAST ? LEAST : asked, atMs: run.trueMs }]);
    return priced(asked);
  }

  /** Asks for more, or for less, from some time on. */
  #change(): void {
    const run = this.#simulation;
    run.at(run.random("the pricer changes") * 2 * MEAN_CHANGE_MS, run.world, () => {
      if (run.isHealed) return;
      this.#surcharge = BigInt(Math.floor(run.random("the pricer's surcharge") * 2_000_000));
      run.say(`${PRICER_HOST} adds ${this.#surcharge}`);
      this.#change();
    });
  }
}

function priced(units: bigint): PeerAnswer {
  const digits = units.toString().padStart(7, "0");
  return { status: 200, text: JSON.stringify({ price: `$${digits.slice(0, -6)}.${digits.slice(-6)}` }) };
}
