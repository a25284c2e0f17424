import {
  largestPriceWei,
  MAX_U64,
  smallestPriceWei,
  type TokenTerms,
  tokenAmount,
} from "../../core/amounts.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { ConfigTables } from "../config.ts";
import { keyPathText } from "../key-path.ts";
import type { MistakeList } from "../mistakes.ts";
import type { X402Table } from "../x402.ts";

/**
 * Checks that every job for sale has an amount above 0 that fits u64, in every token with a fixed rate. The amount at
 * a live rate is not known here.
 */
export function checkPrices({ x402, jobPricing }: ConfigTables, mistakes: MistakeList): void {
  // Prices from the engine make those in the file unused.
  if (x402 === undefined || x402.priceSource === "engine") return;
  const tokens = tokensAtFixedRates(x402, mistakes);
  const isForSale = jobsForSale(x402);
  for (const [serviceId, jobs] of Object.entries(jobPricing ?? {})) {
    for (const [jobIndex, priceWei] of Object.entries(jobs ?? {})) {
      if (priceWei === undefined || !isForSale(jobKeyText(BigInt(serviceId), Number(jobIndex)))) continue;
      const path = ["job_pricing", serviceId, jobIndex];
      for (const { name, terms } of tokens) {
        const amount = tokenAmount(priceWei, terms);
        if (amount === 0n) {
          const bound = smallestPriceWei(terms);
          mistakes.report(
            path,
            `rounds to 0 of ${name}; expected at least ${bound} wei, or a higher rate or markup`,
          );
        } else if (amount > MAX_U64) {
          const bound = largestPriceWei(terms);
          mistakes.report(
            path,
            `is too much of ${name} for u64; expected at most ${bound} wei, or a lower rate or markup`,
          );
        }
      }
    }
  }
}

function tokensAtFixedRates(x402: X402Table, mistakes: MistakeList): { name: string; terms: TokenTerms }[] {
  return (x402.acceptedTokens ?? []).flatMap((token, i) => {
    const path = ["x402", "accepted_tokens", i];
    if (token?.rateSource !== undefined || mistakes.isReported([...path, "rate_source"])) return [];
    const ratePerNativeUnit = token?.ratePerNativeUnit ?? x402.ratePerNativeUnit;
    const markupBps = token?.markupBps ?? x402.markupBps;
    const decimals = token?.decimals;
    if (decimals === undefined || ratePerNativeUnit === undefined || markupBps === undefined) return [];
    return [{ name: keyPathText(path), terms: { ratePerNativeUnit, markupBps, decimals } }];
  });
}

function jobsForSale(x402: X402Table): (job: string) => boolean {
  const modes = new Map<string, string>();
  for (const policy of x402.jobPolicies ?? []) {
    if (policy?.serviceId === undefined || policy.jobIndex === undefined) continue;
    modes.set(jobKeyText(policy.serviceId, policy.jobIndex), policy.invocationMode ?? "disabled");
  }
  return (job) => (modes.get(job) ?? x402.defaultInvocationMode ?? "disabled") !== "disabled";
}
