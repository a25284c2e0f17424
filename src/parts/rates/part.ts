import type { PeerProblem } from "../../config/config.ts";
import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";
import { type RateSource, rateKeys } from "./config.ts";

/** Rates of tokens that follow a price feed or a URL. */
export const part: Part = {
  entries: rateKeys,

  async load({ x402 }) {
    // Loaded without a live rate, because a reload may add one.
    if (x402 === undefined) return undefined;
    const { LiveRates } = await import("./live-rates.ts");
    // The x402 gateway starts and stops it.
    return ({ logger }) => ({ sources: { rates: new LiveRates({ clock: systemClock, logger }) } });
  },

  async checkPeers({ x402 }) {
    const { findRateProblem } = await import("./live-rate.ts");
    const found = await Promise.all(
      (x402?.acceptedTokens ?? []).map(async ({ rate }, i): Promise<PeerProblem[]> => {
        if (rate === undefined || rate.kind === "fixed") return [];
        const problem = await findRateProblem(rate as RateSource);
        return problem ? [{ ...problem, path: ["x402", "accepted_tokens", i, ...problem.path] }] : [];
      }),
    );
    return { notes: [], problems: found.flat() };
  },
};
