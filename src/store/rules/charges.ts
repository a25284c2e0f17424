import { type ChargeKind, isPartial } from "../../core/payment.ts";
import type { Charge } from "../contract/work-queue.ts";
import type { CallState } from "./leases.ts";

const ALL_BASIS_POINTS = 10_000;

/** Columns of a JobCall on which its charge depends. `ceiling` is null for one that is not charged after it ran. */
export interface ChargeColumns {
  readonly ceiling: string | null;
  readonly min_charge: string | null;
  readonly charge_so_far: string | null;
}

/**
 * Checks a charge that a runner asks for.
 * @param ceiling null unless the JobCall is charged in part
 * @returns what is wrong with it; undefined if it can be charged
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

/** Returns true for a charge of the whole ceiling that is asked for in so many words. */
export function isWhole(charge: Charge | undefined): boolean {
  return charge !== undefined && "basisPoints" in charge && charge.basisPoints === ALL_BASIS_POINTS;
}

/** State of a payment whose charge after the job is known. */
export function chargedState(amount: string): "settling" | "released" {
  return amount === "0" ? "released" : "settling";
}

/** Reason of a dead letter whose payment could no longer have been charged. */
export const AUTHORIZATION_ENDED = "the payment's authorization ends before the job is done";

/**
 * Returns what a job is charged when its payment's authorization is about to end. Half a job is worth a part of what it
 * used, and nothing where the whole amount is charged.
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
  // Its payment is free again once it is released, and so is its name: the job must not go on.
  return units === "0" ? undefined : units;
}
