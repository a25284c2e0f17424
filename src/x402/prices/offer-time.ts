import { randomInt } from "node:crypto";
import type { Clock } from "../../core/clock.ts";

/** Unix nanoseconds; each later than the one before. */
export type OfferTime = () => bigint;

const NS_PER_MS = 1_000_000;

/**
 * The time that goes into a quote digest. The digest is the client's proof that it paid for its call, so the
 * nanoseconds that the clock does not have are random: a digest cannot be worked out from when the job was bought.
 */
export function createOfferTime(clock: Clock): OfferTime {
  let last = 0n;
  return () => {
    const now = BigInt(clock()) * BigInt(NS_PER_MS) + BigInt(randomInt(NS_PER_MS));
    last = now > last ? now : last + 1n + BigInt(randomInt(NS_PER_MS));
    return last;
  };
}
