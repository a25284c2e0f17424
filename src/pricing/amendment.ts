import type { Logger } from "pino";
import { RateLimit } from "../http/rate-limit.ts";

/**
 * Changes the message of an answer on its way back. Never rejects.
 * @param deadlineMs Unix milliseconds at which nobody waits for the answer any more
 */
export type Amendment = (message: Buffer, deadlineMs: number) => Promise<Buffer>;

export interface AmendmentLimits {
  /** Never rejects. */
  readonly amend: (message: Buffer) => Promise<Buffer>;
  readonly logger: Logger;
}

/** The longest that an answer which is there is held back. */
const MAX_WAIT_MS = 1_000;
/** Each costs a signature check of some milliseconds and a row in the store, and one proof of work buys any number. */
const MAX_PER_SECOND = 100;
const SECS_BETWEEN_WARNINGS = 10;

/**
 * Lets at most 100 answers a second be amended, each within a second and within half of the time that its call has left:
 * an answer without the amendment is worth more than none. An amendment that comes later is lost.
 */
export function limitAmendments({ amend, logger }: AmendmentLimits): Amendment {
  const rateLimit = new RateLimit();
  const warningLimit = new RateLimit(SECS_BETWEEN_WARNINGS);

  async function amendInTime(message: Buffer, deadlineMs: number): Promise<Buffer> {
    const waitMs = Math.max(0, Math.min(MAX_WAIT_MS, (deadlineMs - Date.now()) / 2));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), waitMs);
    });
    const amended = await Promise.race([amend(message), late]);
    clearTimeout(timer);
    if (amended === undefined) {
      logger.warn(
        { waitMs },
        "how to pay the pricing engine's quote was not known in time: it goes on as it came",
      );
    }
    return amended ?? message;
  }

  return async (message, deadlineMs) => {
    if ((await rateLimit.exceeded("all", MAX_PER_SECOND)) === undefined)
      return amendInTime(message, deadlineMs);
    if ((await warningLimit.exceeded("all", 1)) === undefined) {
      logger.warn(
        { maxPerSecond: MAX_PER_SECOND },
        "too many quotes are asked for: those above the limit go on as they came, and cannot be paid",
      );
    }
    return message;
  };
}
