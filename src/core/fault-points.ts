/**
 * Points at which a crash matters most. With `JOBGATE_CRASH_AT=<name>`, which crash tests set, the process kills itself
 * with SIGKILL the first time that it gets there, or, with `JOBGATE_CRASH_SIGNAL=SIGSTOP`, stops until it is continued.
 * Never set them in production.
 */
export const FAULT_POINTS = [
  "before-journal",
  "after-journal",
  "after-settle",
  "before-charge",
  "after-ack",
  "after-commit",
  "before-delivery",
  "before-ack",
  "before-forgetting",
  "settler-before-journal",
  "settler-after-journal",
  "settler-after-broadcast",
  "settler-after-replacement",
  "refund-before-sending",
  "refund-after-sending",
  "refund-before-end",
] as const;

type FaultPoint = (typeof FAULT_POINTS)[number];

const crashAt = process.env.JOBGATE_CRASH_AT;
if (crashAt !== undefined && !FAULT_POINTS.includes(crashAt as FaultPoint)) {
  throw new Error(`JOBGATE_CRASH_AT is ${crashAt}: expected one of ${FAULT_POINTS.join(", ")}, or unset`);
}

let signal: "SIGKILL" | "SIGSTOP" | undefined =
  process.env.JOBGATE_CRASH_SIGNAL === "SIGSTOP" ? "SIGSTOP" : "SIGKILL";

/** Kills or stops the process if `JOBGATE_CRASH_AT` names this point. */
export function faultPoint(name: FaultPoint): void {
  if (crashAt !== name || signal === undefined) return;
  const sent = signal;
  signal = undefined;
  process.kill(process.pid, sent);
}
