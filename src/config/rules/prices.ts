import {
  largestPriceWei,
  MAX_U64,
  smallestPriceWei,
  type TokenTerms,
  tokenAmount,
} from "../../core/amounts.ts";
import { jobKeyText } from "../../core/job-call.ts";
import type { Checked } from "../check-shape.ts";
import { keyPathText } from "../mistake.ts";
import type { MistakeList } from "../mistake-list.ts";
import type { CheckedFile } from "../schema.ts";

type X402Table = NonNullable<Checked<CheckedFile>["x402"]>;

/**
 * That every job which clients can pay for costs something that can be asked for, in every token. What it will cost
 * at a live rate is not known here.
 */
export function checkPrices(file: Checked<CheckedFile>, mistakes: MistakeList): void {
  const { x402, job_pricing: pricing } = file;
  // With the engine as the price map, what stands in the file is never asked.
  if (x402 === undefined || x402.price_source === "engine") return;
  const tokens = tokensAtFixedRates(x402, mistakes);
  const isEnabled = enabledJobs(x402);
  for (const [serviceId, jobs] of Object.entries(pricing ?? {})) {
    for (const [jobIndex, priceWei] of Object.entries(jobs ?? {})) {
      if (priceWei === undefined || !isEnabled(jobKeyText(BigInt(serviceId), Number(jobIndex)))) continue;
      for (const { name, terms } of tokens) {
        const amount = tokenAmount(priceWei, terms);
        const path = ["job_pricing", serviceId, jobIndex];
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
  return (x402.accepted_tokens ?? []).flatMap((token, i) => {
    const path = ["x402", "accepted_tokens", i];
    if (token?.rate_source !== undefined || mistakes.isReported([...path, "rate_source"])) return [];
    const ratePerNativeUnit = token?.rate_per_native_unit ?? x402.rate_per_native_unit;
    const markupBps = token?.markup_bps ?? x402.markup_bps;
    if (token?.decimals === undefined || ratePerNativeUnit === undefined || markupBps === undefined)
      return [];
    return [{ name: keyPathText(path), terms: { ratePerNativeUnit, markupBps, decimals: token.decimals } }];
  });
}

function enabledJobs(x402: X402Table): (job: string) => boolean {
  const modes = new Map<string, string>();
  for (const policy of x402.job_policies ?? []) {
    if (policy?.service_id === undefined || policy.job_index === undefined) continue;
    modes.set(jobKeyText(policy.service_id, policy.job_index), policy.invocation_mode ?? "disabled");
  }
  return (job) => (modes.get(job) ?? x402.default_invocation_mode ?? "disabled") !== "disabled";
}
