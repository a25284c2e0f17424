import type { ErrorCode } from "../core/errors.ts";

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

/** Counters for each refusal of a paid request. Other refusals are not counted. */
const COUNTERS_OF_REFUSAL: Partial<Record<ErrorCode, readonly CounterName[]>> = {
  job_not_found: ["job_not_found"],
  x402_disabled: ["policy_denied"],
  payment_required: ["payment_required"],
  invalid_payment: ["payment_invalid"],
  malformed_credential: ["payment_invalid"],
  payment_mismatch: ["payment_invalid"],
  payment_invalid: ["payment_invalid"],
  invalid_callback_url: ["payment_invalid"],
  missing_payment_identifier: ["payment_invalid"],
  payment_identifier_conflict: ["payment_replayed"],
  payment_replay: ["payment_replayed"],
  authorization_used: ["payment_replayed"],
  quote_not_found: ["payment_invalid"],
  quote_mismatch: ["payment_invalid"],
  quote_conflict: ["payment_replayed"],
  missing_caller: ["policy_denied"],
  invalid_caller: ["policy_denied"],
  missing_signature: ["policy_denied"],
  invalid_signature: ["policy_denied"],
  missing_signature_nonce: ["policy_denied"],
  invalid_signature_nonce: ["policy_denied"],
  missing_signature_expiry: ["policy_denied"],
  invalid_signature_expiry: ["policy_denied"],
  signature_mismatch: ["policy_denied"],
  signature_expired: ["policy_denied"],
  caller_not_permitted: ["policy_denied"],
  permission_check_failed: ["policy_error"],
  signature_replay: ["policy_denied", "replay_denied"],
  settlement_failed: ["settlement_failed"],
  settlement_unknown: ["settlement_unknown"],
  queue_full: ["enqueue_failed"],
  too_many_undecided: ["enqueue_failed"],
  too_many_open_payments: ["enqueue_failed"],
  store_unavailable: ["enqueue_failed"],
};

/** Counts what this process did with paid requests since it started. */
export class X402Stats {
  readonly #counts = new Map<string, number>(COUNTER_NAMES.map((name) => [name, 0]));

  count(name: CounterName): void {
    this.#add(name);
  }

  countRefusal(code: ErrorCode): void {
    for (const name of COUNTERS_OF_REFUSAL[code] ?? []) this.count(name);
  }

  /** Adds counters. @returns what counts under their names */
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
