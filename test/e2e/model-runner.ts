import { setTimeout as sleep } from "node:timers/promises";
import { type JobCall, LeaseStatus } from "../../src/gen/jobgate/v1/runner_pb.ts";
import { Fail } from "../../src/runner/job.ts";
import type { JobOutcome, Runner } from "../helpers/runner.ts";
import { AMOUNT } from "./paid-parts.ts";

/** Charges of a model's runner for jobs that are metered. */
export type Charging = keyof typeof CHARGES;
const CHARGES = {
  all: AMOUNT,
  half: AMOUNT / 2n,
  unit: 1n,
  nothing: 0n,
  /** More than the ceiling at first, which is refused. */
  "too much": 5n,
  /** This, and then another amount. */
  twice: 3n,
  /** Reports more and more, and acks in the end of the run. */
  late: 7n,
  /** No ack ever. */
  never: undefined,
} as const;
export const CHARGINGS = Object.keys(CHARGES) as Charging[];

/** Units by which a late job's charge so far grows. */
const STEP = 100_000n;
const MAX_REPORTS = 600n;
const REPORT_EVERY_MS = 100;
/** Least charge, 10% of the ceiling. */
const MIN_CHARGE = AMOUNT / 10n;

/** Returns true for an amount that a metered payment may be charged. `isEnded`: its authorization may have ended. */
export function mayCharge(charging: Charging, isEnded: boolean, amount: bigint): boolean {
  if (amount === CHARGES[charging]) return true;
  const isReported = charging === "late" && (amount % STEP === 0n || amount === AMOUNT);
  return isEnded && (amount === MIN_CHARGE || (isReported && amount > MIN_CHARGE && amount <= AMOUNT));
}

/** The runner of a model. The body of a JobCall that is metered begins with its {@link Charging}. */
export class ModelRunner {
  /** Bodies of the JobCalls that fail. */
  readonly failing = new Set<string>();
  /** Late jobs are acked. */
  isEnd = false;

  async handle(call: JobCall, runner: Pick<Runner, "ack" | "extend">): Promise<JobOutcome> {
    const text = Buffer.from(call.body).toString();
    if (this.failing.has(text)) throw new Fail("as the model says");
    const [charging = ""] = text.split(": ");
    if (!(charging in CHARGES)) return undefined;
    const charge = CHARGES[charging as Charging];
    const { callId, leaseToken } = call;
    const unitsOf = (units: bigint) => ({ amount: { case: "units", value: String(units) } }) as const;
    switch (charging) {
      case "all":
        return { body: call.body };
      case "never":
        return new Promise<never>(() => {});
      case "too much":
        return { body: call.body, charge: call.attempt === 1 ? AMOUNT + 1n : 5n };
      case "twice":
        await runner.ack({ acks: [{ callId, leaseToken, charge: unitsOf(3n) }] });
        return { body: call.body, charge: 4n };
      case "late":
        await this.#workLate((units) =>
          runner.extend({ leases: [{ callId, leaseToken, chargeSoFar: unitsOf(units) }] }),
        );
    }
    return { body: call.body, ...(charge !== undefined && { charge }) };
  }

  /** Reports until the end of the run, or until the lease is lost. */
  async #workLate(
    report: (units: bigint) => Promise<{ readonly statuses: readonly LeaseStatus[] }>,
  ): Promise<void> {
    for (let reports = 1n; reports <= MAX_REPORTS && !this.isEnd; reports++) {
      const units = reports * STEP;
      const { statuses } = await report(units < AMOUNT ? units : AMOUNT);
      if (statuses[0] !== LeaseStatus.DONE) return;
      await sleep(REPORT_EVERY_MS);
    }
  }
}
