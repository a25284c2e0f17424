import { formatUnits } from "viem";
import type { Job, X402Config } from "../../config/config.ts";
import { priceText } from "../../core/amounts.ts";
import type { JobKey } from "../../core/job-call.ts";
import { isPartial } from "../../core/payment.ts";
import { type Offer, offeredMethod } from "../wire/offer.ts";
import { JobUrls } from "../wire/paths.ts";
import type { ListedJob, ListedOffer } from "./listing.ts";

/** Longest service name that x402 clients take. */
const MAX_NAME = 32;

/** Who sells the jobs. */
export interface Seller {
  /** Without a trailing slash. */
  readonly publicUrl: string;
  readonly urls: JobUrls;
  /** At most 32 ASCII characters. */
  readonly serviceName: string;
  /** Texts of promises to buyers of jobs that fail, by their names. */
  readonly promises: ReadonlyMap<string, string>;
  /** Abilities of the shop besides sales over x402. */
  readonly features: readonly Feature[];
}

/** An ability of clients besides buying over x402, as documents about the jobs describe it. */
export interface Feature {
  /** Markdown for agents. */
  readonly guide: string;
  /** Name of its own payment protocol. */
  readonly protocol?: string;
  /** Returns further fields of a job's entry in the lists of jobs. */
  entryFields?(job: JobKey): Readonly<Record<string, string>>;
  /** Returns the payment method that can pay an offer; undefined if none can. */
  methodFor?(offer: Offer): string | undefined;
  /** Its own routes in OpenAPI, and the schemas that they name. */
  readonly openApi?: Readonly<Record<"paths" | "schemas", Readonly<Record<string, object>>>>;
  /** Headers of its answers, with their descriptions. */
  readonly headers?: Readonly<Record<"accepted" | "paymentRequired", Readonly<Record<string, string>>>>;
}

export function sellerOf(
  config: Pick<X402Config, "publicUrl" | "serviceName" | "jobs" | "promises">,
  features: readonly Feature[] = [],
): Seller {
  const { publicUrl, serviceName = new URL(publicUrl).hostname.slice(0, MAX_NAME) } = config;
  const promises = new Map(config.promises?.map(({ name, text }) => [name, text]));
  return { publicUrl, urls: new JobUrls(config), serviceName, promises, features };
}

/** Returns what people call a job. */
export function jobTitle(job: Pick<Job, "serviceId" | "jobIndex" | "name" | "title">): string {
  return job.title ?? job.name ?? `Job ${job.jobIndex} of service ${job.serviceId}`;
}

/** Returns a price for people: `$0.01`, `1000000000000000 wei`. */
export function listedPriceText({ priceWei, currency, range }: NonNullable<ListedJob["price"]>): string {
  if (range !== undefined) return `${priceText(range.from)} to ${priceText(range.upTo)} (${range.rule})`;
  return priceText({ unit: currency === "USD" ? "usd" : "wei", amount: priceWei });
}

/** Returns a way to pay for people: `0.01 USDC on eip155:8453`, and the transfer method unless it is EIP-3009. */
export function optionText({ amount, decimals, token, charge, method, isLowest }: ListedOffer): string {
  const ceiling = isPartial(charge?.kind ?? "before") ? "up to " : isLowest ? "from " : "";
  const by = offeredMethod(token) === undefined ? "" : ` by ${method}`;
  return `${ceiling}${formatUnits(BigInt(amount), decimals)} ${token.symbol} on ${token.network}${by}`;
}

/** Ends a text of the seller so that a sentence can follow it. */
export function asSentence(text: string): string {
  return /[.!?…。！？]$/u.test(text) ? text : `${text}.`;
}
