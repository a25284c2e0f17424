import { createHash } from "node:crypto";
import { boundedCache } from "../../core/bounded-cache.ts";
import { isOnCurve, toBase58, tokenAccountInputs } from "./portable/addresses.ts";

const associated = boundedCache<string, string>(1_000);

/** Returns the account of the SPL Token program that holds a token for its owner. Both are addresses. */
export function tokenAccountOf(owner: string, mint: string): string {
  const key = `${owner} ${mint}`;
  const known = associated.get(key);
  if (known !== undefined) return known;
  for (const input of tokenAccountInputs(owner, mint)) {
    const account = createHash("sha256").update(input).digest();
    if (isOnCurve(account)) continue;
    associated.set(key, toBase58(account));
    return toBase58(account);
  }
  throw new Error("the owner and the mint have no address");
}
