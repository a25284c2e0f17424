import { ERROR_KINDS, type ErrorCode } from "../core/errors.ts";

/** Counters in `GET /x402/stats`. */
const COUNTER_NAMES = [
  "accepted",
  "policy_denied",
  "policy_error",
  "replay_denied",
  "enqueue_failed",
  "job_not_found",
  "auth_dry_run_allowed",
  "auth_dry_run_denied",
  "auth_dry_run_error",
  "payment_required",
  "payment_invalid",
  "payment_replayed",
  "settlement_failed",
  "settlement_unknown",
] as const;

export type CounterName = (typeof COUNTER_NAMES)[number];

/** Counts what this process did with paid requests since it started. */
export class X402Stats {
  readonly #counts = new Map<string, number>(COUNTER_NAMES.map((name) => [name, 0]));

  count(name: CounterName): void {
    this.#add(name);
  }

  countRefusal(code: ErrorCode): void {
    const kind = ERROR_KINDS[code];
    if ("counters" in kind) for (const name of kind.counters) this.count(name);
  }

  /** Adds counters. @returns a function that increments them */
  addCounters<Name extends string>(names: readonly Name[]): (name: Name) => void {
    for (const name of names) this.#counts.set(name, this.#counts.get(name) ?? 0);
    return (name) => this.#add(name);
  }

  counters(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }

  #add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }
}
