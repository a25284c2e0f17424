import type { RateSource } from "../../config/config.ts";
import { systemClock } from "../../core/clock.ts";
import { createAsk } from "./ask-rate.ts";
import { RateProblem } from "./live-value.ts";

/** Why a rate cannot be got now, at a key path below the token's. */
interface RateSourceProblem {
  readonly path: readonly string[];
  /** Holds no URL. */
  readonly message: string;
}

/** Asks a token's source for its rate, once. A fixed rate needs no asking. */
export async function findRateProblem(source: RateSource): Promise<RateSourceProblem | undefined> {
  if (source.kind === "fixed") return undefined;
  try {
    await createAsk(source, systemClock)();
    return undefined;
  } catch (error) {
    if (!(error instanceof RateProblem)) throw error;
    return { path: ["rate_source", source.kind, error.key], message: `gives no rate: ${error.message}` };
  }
}
