import type { RevenuePeriod } from "./store.ts";

export const HOUR_MS = 3_600_000;
/** Later than any payment, and exact in milliseconds. */
const NO_HOUR = 2_000_000_000;

/**
 * Returns the first hour (Unix hours) of a revenue report that comes from the sums by hour. The payments before it are
 * summed one by one: those of the first, incomplete hour, or all of them for buckets that hours do not fill.
 */
export function firstSummedHour({ since, bucketMs }: RevenuePeriod): number {
  return bucketMs % HOUR_MS === 0 ? Math.ceil(since / HOUR_MS) : NO_HOUR;
}
