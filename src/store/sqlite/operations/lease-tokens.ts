import { randomFillSync } from "node:crypto";

const TOKEN_BYTES = 16;
const TOKENS_AT_ONCE = 256;

/**
 * Gives a function that makes lease tokens: 128 random bits, URL-safe. It draws randomness for many at once, since
 * each draw has a price of its own.
 */
export function createLeaseTokens(): () => string {
  const pool = Buffer.alloc(TOKEN_BYTES * TOKENS_AT_ONCE);
  let used = pool.length;
  return () => {
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    used += TOKEN_BYTES;
    return pool.toString("base64url", used - TOKEN_BYTES, used);
  };
}
