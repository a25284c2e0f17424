/**
 * Whether a time in Unix seconds, as a header holds it, is near enough to now. One in the future is refused as well:
 * it would let a captured request be sent again for longer.
 * @param now Unix milliseconds
 */
export function isTimely(seconds: string, now: number, toleranceSecs: number): boolean {
  return /^\d{1,12}$/.test(seconds) && Math.abs(Math.floor(now / 1000) - Number(seconds)) <= toleranceSecs;
}

/** Unix seconds, as a sender writes them. */
export function signedTime(now: number): string {
  return String(Math.floor(now / 1000));
}
