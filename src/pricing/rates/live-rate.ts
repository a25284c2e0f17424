import type { Clock } from "../../core/clock.ts";
import { type AskRate, type LiveValue, RateProblem } from "./live-value.ts";

export interface LiveRateOptions {
  readonly ask: AskRate;
  /** A value that is older is not used. */
  readonly maxAgeMs: number;
  /** From one question to the next, unless the answer takes longer. */
  readonly refreshMs: number;
  readonly clock: Clock;
  /** Called when questions begin to fail, not for each that does. */
  readonly onFailing: (problem: string) => void;
  /** Called when they have stopped failing. */
  readonly onRecovered: () => void;
}

/** The answers of one source, one question at a time: the last good one holds until it is too old. */
export interface LiveRate {
  /** Starts asking. Resolves once the first question is answered or has failed. */
  start(): Promise<void>;
  stop(): void;
  /** The last good value, while it may be used. */
  usable(): LiveValue | undefined;
  /** The last good value, however old. */
  latest(): LiveValue | undefined;
  /** Why the last question failed, or why there is no value to use. */
  problem(): string | undefined;
}

export function createLiveRate(options: LiveRateOptions): LiveRate {
  const { ask, maxAgeMs, refreshMs, clock, onFailing, onRecovered } = options;
  let latest: LiveValue | undefined;
  let failure: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function refresh(): Promise<void> {
    const started = performance.now();
    const answer = await ask().catch(problemOf);
    if (stopped) return;
    if (typeof answer === "string") {
      if (failure === undefined) onFailing(answer);
      failure = answer;
    } else {
      if (failure !== undefined) onRecovered();
      failure = undefined;
      latest = answer;
    }
    const wait = Math.max(0, refreshMs - (performance.now() - started));
    timer = setTimeout(() => void refresh(), wait).unref();
  }

  const isFresh = ({ asOf }: LiveValue) => clock() - asOf <= maxAgeMs;

  return {
    start: refresh,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
    usable: () => (latest !== undefined && isFresh(latest) ? latest : undefined),
    latest: () => latest,
    problem() {
      if (failure !== undefined) return failure;
      if (latest === undefined) return "it was not asked yet";
      return isFresh(latest) ? undefined : "its last answer is too old";
    },
  };
}

/** Only what is worded for the operator: what libraries say of an error may quote the URL. */
function problemOf(error: unknown): string {
  return error instanceof RateProblem ? error.message : "it could not be asked";
}
