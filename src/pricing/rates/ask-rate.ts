import type { RateSource } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { createChainlinkRate } from "./chainlink-rate.ts";
import { createHttpRate } from "./http-rate.ts";
import type { AskRate } from "./live-value.ts";

/** The longest that one question may take. */
const MAX_QUESTION_MS = 5_000;

/** What asks a live source for its rate, of whichever kind it is. */
export function createAsk(source: Exclude<RateSource, { kind: "fixed" }>, clock: Clock): AskRate {
  // An answer that takes longer than a value may be old is of no use.
  const timeoutMs = Math.min(MAX_QUESTION_MS, source.maxAgeMs);
  return source.kind === "chainlink"
    ? createChainlinkRate({ ...source, timeoutMs, clock })
    : createHttpRate({ ...source, timeoutMs, clock });
}
