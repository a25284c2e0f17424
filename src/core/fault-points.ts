/**
 * Points at which a crash matters most. With `JOBGATE_CRASH_AT=<name>`, which crash tests set, the process kills itself
 * with SIGKILL the first time that it reaches the point. If `JOBGATE_CRASH_SIGNAL=SIGSTOP` is also set, the process
 * instead stops until it is continued. Never set these variables in production.
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
] as const;

/** Fault point of the core, or of a part: the name of the part, a slash, and the name of the point. */
type FaultPoint = (typeof FAULT_POINTS)[number] | `${string}/${string}`;

const crashAt = process.env.JOBGATE_CRASH_AT;
const known: readonly string[] = FAULT_POINTS;
if (crashAt !== undefined && !crashAt.includes("/") && !known.includes(crashAt)) {
  throw new Error(
    `JOBGATE_CRASH_AT is ${crashAt}: expected one of ${known.join(", ")}, one of a part, or unset`,
  );
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
