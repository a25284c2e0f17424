import type { OperationOutcome } from "../../../src/store/group-commit.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";

/** Something that dies as a whole: a gateway, or the world around it. Its events are lost with it. */
export interface Process {
  readonly name: string;
  isAlive: boolean;
  /** Nothing of it runs before this time. */
  stalledUntil?: number;
  /** Its machine's wall clock, if that is ever wrong. */
  readonly clock?: { aheadMs: number };
}

interface Event {
  at: number;
  order: number;
  readonly owner: Process;
  readonly run: () => void;
  isCancelled: boolean;
}

/** Wall clock at the beginning of every run, Unix milliseconds: the first moment of 2026. */
const STARTED_AT = 1_767_225_600_000;
/** Time for which things go wrong. */
export const TROUBLE_MS = 60_000;
/** More events than any run has. */
const MAX_EVENTS = 2_000_000;

/** A law that does not hold. */
export class BrokenLaw extends Error {
  override readonly name = "BrokenLaw";
}

/**
 * One run: a queue of events in virtual time. Every decision is a function of the seed and the decision's own name, so
 * that leaving one fault out does not change what else happens by chance.
 */
export class Simulation {
  readonly seed: number;
  /** The world outside of every gateway. */
  readonly world: Process = { name: "world", isAlive: true };
  /** Process whose code runs now. */
  current: Process = this.world;
  /** Milliseconds since the beginning. */
  now = 0;
  /** Nothing goes wrong from now on. */
  isHealed = false;
  /** Unix milliseconds since which nothing goes wrong. */
  healedAtMs = Number.POSITIVE_INFINITY;
  /** When a process that stands still goes on, or last went on. */
  goesOnAt = 0;
  /** Names of those who took part and of the faults that happened, in order. */
  readonly faults: string[] = [];
  readonly trace: string[] = [];
  /** Hears of every write of a store, in their order; without an outcome when a disk may have it or not. */
  onCommit: (operation: TimedOperation, outcome: OperationOutcome | undefined) => void = () => undefined;
  readonly #without: ReadonlySet<string>;
  readonly #decisions = new Map<string, { readonly hash: number; count: number }>();
  readonly #queue: Event[] = [];
  #order = 0;
  #hash = 0;
  #broken: BrokenLaw | undefined;

  /** @param without names of faults that do not happen in this run */
  constructor(seed: number, without: ReadonlySet<string> = new Set()) {
    this.seed = seed;
    this.#without = without;
  }

  /** Time on the wall clock of the machine whose code runs now. */
  get wallMs(): number {
    return this.trueMs + (this.current.clock?.aheadMs ?? 0);
  }

  get trueMs(): number {
    return STARTED_AT + Math.floor(this.now);
  }

  /** Identifies the run: equal for two runs in which the same happened. */
  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, "0");
  }

  /** Number in [0, 1) for the next decision of this name. */
  random(name: string): number {
    const decision = this.#decisionOf(name);
    return fraction(decision.hash, decision.count++);
  }

  #decisionOf(name: string) {
    const known = this.#decisions.get(name);
    if (known !== undefined) return known;
    const decision = { hash: mixText(mix(0x811c9dc5, this.seed), `${name} `), count: 0 };
    this.#decisions.set(name, decision);
    return decision;
  }

  /** Milliseconds between two bounds, most often short. */
  delay(name: string, leastMs: number, mostMs: number): number {
    return leastMs + (mostMs - leastMs) * this.random(name) ** 3;
  }

  pick<T>(name: string, choices: readonly T[]): T {
    return choices[Math.floor(this.random(name) * choices.length)] as T;
  }

  /** Decides whether something goes wrong now. */
  fault(name: string, probability: number): boolean {
    const happens = this.random(name) < probability && !this.isHealed;
    if (!happens) return false;
    const id = `${name} #${this.#decisionOf(name).count - 1}`;
    if (this.#without.has(id)) return false;
    this.faults.push(id);
    this.say(`FAULT ${id}`);
    return true;
  }

  /** Reports whether somebody takes part in this run. */
  takesPart(name: string): boolean {
    if (this.#without.has(name)) return false;
    this.faults.push(name);
    return true;
  }

  say(line: string): void {
    const text = `${(this.now / 1000).toFixed(3).padStart(9)} s  ${line}`;
    this.trace.push(text);
    this.#hash = mixText(this.#hash, text);
  }

  break(law: string): void {
    if (this.#broken !== undefined) return;
    this.say(`BROKEN: ${law}`);
    this.#broken = new BrokenLaw(law);
  }

  /** @throws BrokenLaw */
  throwIfBroken(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  /** Runs a function later in a process, unless that dies before. */
  at(delayMs: number, owner: Process, run: () => void): { cancel(): void } {
    const event = { at: this.now + delayMs, order: this.#order++, owner, run, isCancelled: false };
    push(this.#queue, event);
    return {
      cancel: () => {
        event.isCancelled = true;
      },
    };
  }

  /** Runs events until something is true. @returns false when time is over before */
  async runUntil(isDone: () => boolean, mostMs: number): Promise<boolean> {
    const end = this.now + mostMs;
    while (!isDone()) {
      const event = this.#next();
      if (event === undefined || event.at > end) return false;
      if (this.#order > MAX_EVENTS) throw new Error("the run does not end");
      this.now = event.at;
      this.current = event.owner;
      event.run();
      await drained();
      this.current = this.world;
      this.throwIfBroken();
    }
    return true;
  }

  #next(): Event | undefined {
    for (;;) {
      const event = pop(this.#queue);
      if (event === undefined) return undefined;
      const { isAlive, stalledUntil = 0 } = event.owner;
      if (event.isCancelled || !isAlive) continue;
      if (event.at >= stalledUntil) return event;
      event.at = stalledUntil;
      this.goesOnAt = stalledUntil;
      event.order = this.#order++;
      push(this.#queue, event);
    }
  }
}

let running: Simulation | undefined;

/** Makes this the run whose time and chance the code of the gateway gets. */
export function use(simulation: Simulation | undefined): void {
  running = simulation;
}

/** The run. Modules that are loaded before any get a clock that stands still. */
const IDLE = new Simulation(0);
export function simulation(): Simulation {
  return running ?? IDLE;
}

/** Resolves when every promise that could go on has. */
export function drained(): Promise<void> {
  return new Promise((resolve) => {
    globalThis.setImmediate(resolve);
  });
}

function mix(hash: number, value: number): number {
  return Math.imul(hash ^ value, 0x01000193);
}

function mixText(start: number, text: string): number {
  let hash = start;
  for (let i = 0; i < text.length; i++) hash = mix(hash, text.charCodeAt(i));
  return hash;
}

/** Number in [0, 1) for a decision that was made some times before. @param named hash of the seed and the decision's name */
function fraction(named: number, count: number): number {
  let hash = mixText(named, String(count));
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}

function isBefore(left: Event, right: Event): boolean {
  return left.at < right.at || (left.at === right.at && left.order < right.order);
}

/** A binary heap. */
function push(heap: Event[], event: Event): void {
  let index = heap.push(event) - 1;
  while (index > 0) {
    const above = (index - 1) >> 1;
    const parent = heap[above] as Event;
    if (!isBefore(event, parent)) break;
    heap[index] = parent;
    index = above;
  }
  heap[index] = event;
}

function pop(heap: Event[]): Event | undefined {
  const first = heap[0];
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return first;
  let index = 0;
  for (;;) {
    let below = 2 * index + 1;
    if (below >= heap.length) break;
    if (below + 1 < heap.length && isBefore(heap[below + 1] as Event, heap[below] as Event)) below++;
    if (!isBefore(heap[below] as Event, last)) break;
    heap[index] = heap[below] as Event;
    index = below;
  }
  heap[index] = last;
  return first;
}
