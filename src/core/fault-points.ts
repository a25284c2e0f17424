/**
 * Points at which a crash matters most. With `JOBGATE_CRASH_AT=<name>`, which crash tests set, the process kills itself
 * with SIGKILL the first time that it gets there. Never set it in production.
 */
export const FAULT_POINTS = [
  "before-journal",
  "after-journal",
  "after-settle",
  "after-commit",
  "before-delivery",
  "before-ack",
] as const;

export type FaultPoint = (typeof FAULT_POINTS)[number];

const crashAt = process.env.JOBGATE_CRASH_AT;
if (crashAt !== undefined && !FAULT_POINTS.includes(crashAt as FaultPoint)) {
  throw new Error(`JOBGATE_CRASH_AT is ${crashAt}: expected one of ${FAULT_POINTS.join(", ")}, or unset`);
}

/** Kills the process if `JOBGATE_CRASH_AT` names this point. */
export function faultPoint(name: FaultPoint): void {
  if (crashAt === name) process.kill(process.pid, "SIGKILL");
}
