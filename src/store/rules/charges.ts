import { type ChargeKind, isPartial } from "../../core/payment.ts";
import type { Charge } from "../contract/work-queue.ts";
import type { CallState } from "./leases.ts";

const ALL_BASIS_POINTS = 10_000;

/** Columns of a JobCall that determine its charge. `ceiling` is null if the JobCall is not charged after it ran. */
export interface ChargeColumns {
  readonly ceiling: string | null;
  readonly min_charge: string | null;
  readonly charge_so_far: string | null;
}

/**
 * Checks a charge that a runner names.
 * @param ceiling null unless the runner names the charge
 * @returns the problem of the charge; undefined if it can be charged
 */
export function chargeProblem(ceiling: string | null, charge: Charge): string | undefined {
  if (ceiling === null) return "it is not metered; expected no charge";
  if ("basisPoints" in charge) {
    if (charge.basisPoints <= ALL_BASIS_POINTS) return undefined;
    return `the charge is ${charge.basisPoints} basis points; expected at most ${ALL_BASIS_POINTS}`;
  }
  if (BigInt(charge.units) <= BigInt(ceiling)) return undefined;
  return `the charge is ${charge.units}; expected at most the ceiling, ${ceiling}`;
}

/**
 * Returns the token units to charge, never more than the ceiling.
 * @param charge default: the whole ceiling
 */
export function chargedUnits(ceiling: string, charge?: Charge): string {
  if (charge === undefined) return ceiling;
  const most = BigInt(ceiling);
  const asked =
    "units" in charge ? BigInt(charge.units) : (most * BigInt(charge.basisPoints)) / BigInt(ALL_BASIS_POINTS);
  return String(asked < most ? asked : most);
}

/** Returns true for a charge that explicitly asks for the whole ceiling. */
export function isWhole(charge: Charge | undefined): boolean {
  return charge !== undefined && "basisPoints" in charge && charge.basisPoints === ALL_BASIS_POINTS;
}

/** State of a payment whose charge after the job is known. */
export function chargedState(amount: string): "settling" | "released" {
  return amount === "0" ? "released" : "settling";
}

/** Reason of a dead letter whose payment was about to expire. */
export const AUTHORIZATION_ENDED = "the payment's authorization ends before the job is done";

/**
 * Returns the charge for a job that still runs when its payment's authorization is about to end. If the runner names
 * charges, the job is charged the amount that the runner last reported. Otherwise, an unfinished job is charged
 * nothing.
 * @returns undefined if the job ends, and its payment is released
 */
export function chargeAtEnd(
  call: ChargeColumns & { readonly state: CallState; readonly visible_at: number | null },
  charge: ChargeKind,
  now: number,
): string | undefined {
  if (!isPartial(charge)) return undefined;
  const { state, visible_at, ceiling, min_charge, charge_so_far } = call;
  if (ceiling === null || state !== "leased" || (visible_at ?? 0) <= now) return undefined;
  const [reported, least] = [BigInt(charge_so_far ?? 0), BigInt(min_charge ?? 0)];
  const units = chargedUnits(ceiling, { units: String(reported > least ? reported : least) });
  // A released payment is free again, and so is its name, so the job must not continue.
  return units === "0" ? undefined : units;
}
