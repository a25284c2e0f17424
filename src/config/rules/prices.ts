import {
  largestPriceWei,
  MAX_U64,
  type Price,
  priceText,
  smallestPriceWei,
  type TokenTerms,
  tokenAmount,
} from "../../core/amounts.ts";
import { jobKeyText } from "../../core/job-call.ts";
import { serviceIdOf } from "../config.ts";
import type { EntryClaims } from "../entry-keys.ts";
import type { MistakeList, Place } from "../mistakes.ts";
import type { PriceSourceName } from "../price-sources.ts";
import type { ConfigTables } from "../schema.ts";
import type { X402Table } from "../x402.ts";
import { hasRate } from "./rates.ts";
import { type PlacedToken, tokensOf } from "./x402.ts";

/**
 * Checks that every job for sale can be paid in some token. In each token in which a job is offered, its amount must be
 * above 0 and fit u64. An amount at a live rate is not known here.
 */
export function checkPrices(tables: ConfigTables, mistakes: MistakeList): void {
  const { x402, claims } = tables;
  if (x402?.acceptedTokens === undefined) return;
  const { jobs = [] } = tables;
  const names = new Map(
    jobs.flatMap((job) =>
      job?.jobIndex === undefined
        ? []
        : [[jobKeyText(job.serviceId ?? serviceIdOf(tables), job.jobIndex), job.name] as const],
    ),
  );
  const isForSale = jobsForSale(tables);
  const tokens = mistakes.at("x402", "accepted_tokens");
  for (const { job, path, price } of pricesOf(tables)) {
    if (!isForSale(job)) continue;
    const sold = tokensOf({ name: names.get(job) }, x402, tokens);
    checkPrice(price, mistakes.at(...path), { x402, claims, sold });
  }
  const all = x402.acceptedTokens.map((token, i) => [token, tokens.at(i), i] as const);
  if (isOfPart(x402) && !hasTokenFor("wei", { x402, claims, sold: all })) {
    tokens.report(`have no rate, so none can be offered for a price in wei; expected ${rateKeys(claims)}`);
  }
}

interface PlacedPrice {
  /** `service/job` */
  readonly job: string;
  readonly path: readonly (string | number)[];
  readonly price: Price | PriceSourceName;
}

function pricesOf(tables: ConfigTables): PlacedPrice[] {
  const own = (tables.jobs ?? []).flatMap((table, i): PlacedPrice[] => {
    if (table?.jobIndex === undefined) return [];
    const job = jobKeyText(table.serviceId ?? serviceIdOf(tables), table.jobIndex);
    if (table.priceWei !== undefined) {
      return [{ job, path: ["jobs", i, "price_wei"], price: { unit: "wei", amount: table.priceWei } }];
    }
    const path = ["jobs", i, "price"];
    const claim = tables.claims.of("jobs.price", i);
    if (claim !== undefined) return claim.bounds.map((price) => ({ job, path, price }));
    const price = table.price as Price | PriceSourceName | undefined;
    return price === undefined ? [] : [{ job, path, price }];
  });
  return isOfPart(tables.x402) ? own : [...own, ...mappedPrices(tables)];
}

/** Returns true if a part makes prices, in wei. The prices in `[job_pricing]` are then unused. */
export function isOfPart(x402: X402Table | undefined): boolean {
  return x402?.priceSource !== undefined && x402.priceSource !== "map";
}

function mappedPrices({ jobPricing }: ConfigTables): PlacedPrice[] {
  return Object.entries(jobPricing ?? {}).flatMap(([serviceId, jobs]) =>
    Object.entries(jobs ?? {}).flatMap(([jobIndex, amount]): PlacedPrice[] => {
      if (amount === undefined) return [];
      const job = jobKeyText(BigInt(serviceId), Number(jobIndex));
      return [{ job, path: ["job_pricing", serviceId, jobIndex], price: { unit: "wei", amount } }];
    }),
  );
}

/** Returns the keys that give a token a rate, as mistakes name them. */
function rateKeys(claims: EntryClaims): string {
  return ["rate_per_native_unit", ...claims.alternatives("x402.acceptedTokens")].join(" or ");
}

/** The tokens in which a job is sold, with the source of each rate. */
interface Tokens {
  readonly x402: X402Table;
  readonly claims: EntryClaims;
  readonly sold: readonly PlacedToken[];
}

function checkPrice(price: Price | PriceSourceName, place: Place, known: Tokens): void {
  const unit = typeof price === "string" ? "wei" : price.unit;
  if (!hasTokenFor(unit, known)) {
    const expected =
      unit === "usd"
        ? 'one with currency = "USD", or a preset such as token = "USDC"'
        : `one with ${rateKeys(known.claims)}`;
    place.report(`can be paid in none of x402.accepted_tokens; expected ${expected}`);
  }
  if (typeof price === "string") return;
  for (const { name, terms } of knownTerms(unit, known)) {
    const amount = tokenAmount(price.amount, terms);
    if (amount === 0n) {
      const least = boundText(unit, smallestPriceWei(terms), "up");
      place.report(`rounds to 0 of ${name}; expected at least ${least}, or a higher rate or markup`);
    } else if (amount > MAX_U64) {
      const most = boundText(unit, largestPriceWei(terms), "down");
      place.report(`is too much of ${name} for u64; expected at most ${most}, or a lower rate or markup`);
    }
  }
}

/** 10^-6 dollars, the smallest step of a price in dollars. */
const USD_STEP = 10n ** 12n;

function boundText(unit: Price["unit"], amount: bigint, round: "up" | "down"): string {
  if (unit === "wei") return priceText({ unit, amount });
  const steps = (round === "up" ? amount + USD_STEP - 1n : amount) / USD_STEP;
  return priceText({ unit, amount: steps * USD_STEP });
}

function hasTokenFor(unit: Price["unit"], known: Tokens): boolean {
  return known.sold.some(
    ([token, place, i]) =>
      // A token with a mistake may be a token that pays.
      token === undefined ||
      place.hasMistake ||
      (unit === "usd"
        ? token.currency === "USD"
        : token.currency === undefined || hasRate(token, i, known, place)),
  );
}

function knownTerms(
  unit: Price["unit"],
  { x402, claims, sold }: Tokens,
): { name: string; terms: TokenTerms }[] {
  return sold.flatMap(([token, place, i]) => {
    const isLive = claims.of("x402.acceptedTokens", i) !== undefined;
    const fixedRate = isLive ? undefined : (token?.ratePerNativeUnit ?? x402.ratePerNativeUnit);
    const ratePerNativeUnit = unit === "usd" ? token?.currency && "1" : fixedRate;
    const markupBps = token?.markupBps ?? x402.markupBps;
    const decimals = token?.decimals;
    if (decimals === undefined || ratePerNativeUnit === undefined || markupBps === undefined) return [];
    return [{ name: place.text, terms: { ratePerNativeUnit, markupBps, decimals } }];
  });
}

function jobsForSale(tables: ConfigTables): (job: string) => boolean {
  const { x402, jobs = [] } = tables;
  const modes = new Map<string, string>();
  for (const policy of x402?.jobPolicies ?? []) {
    if (policy?.serviceId === undefined || policy.jobIndex === undefined) continue;
    modes.set(jobKeyText(policy.serviceId, policy.jobIndex), policy.invocationMode ?? "disabled");
  }
  for (const job of jobs) {
    if (job?.jobIndex === undefined || job.mode === undefined) continue;
    modes.set(jobKeyText(job.serviceId ?? serviceIdOf(tables), job.jobIndex), job.mode);
  }
  return (job) => (modes.get(job) ?? x402?.defaultInvocationMode ?? "disabled") !== "disabled";
}
