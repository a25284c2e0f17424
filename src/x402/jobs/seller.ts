import { formatUnits } from "viem";
import type { Job, X402Config } from "../../config/config.ts";
import { priceText, type RequestPricing } from "../../core/amounts.ts";
import { type ChargeKind, isPartial } from "../../core/payment.ts";
import { jobLabel } from "../../core/route.ts";
import type { JobAccess } from "../purchase/terms.ts";
import { chargeKindOf, type Offer, offeredMethod } from "../wire/offer.ts";
import { JobUrls } from "../wire/paths.ts";
import type { ListedJob, ListedOffer } from "./listing.ts";

/** Longest service name that x402 clients accept. */
const MAX_NAME = 32;
/** Matches a label that x402 clients accept: printable ASCII. */
export const LABEL = new RegExp(`^[\\x20-\\x7e]{1,${MAX_NAME}}$`);

/** Seller of the jobs, as documents describe it. */
export interface Seller {
  /** URL without a trailing slash. */
  readonly publicUrl: string;
  readonly urls: JobUrls;
  /** At most 32 ASCII characters. */
  readonly serviceName: string;
  /** Name for people and agents. */
  readonly title: string;
  /** E-mail address, or URL of a page. */
  readonly contact: string | undefined;
  /** URL of a picture. */
  readonly logo: string | undefined;
  /** Colour of the pages: `#rrggbb`. */
  readonly themeColor: string | undefined;
  /** URL of a page. */
  readonly termsOfService: string | undefined;
  /** Advice to agents before they buy. */
  readonly guidance: string | undefined;
  /** Texts of promises to buyers of jobs that fail, by their names. */
  readonly promises: ReadonlyMap<string, string>;
  /** Abilities of the shop in addition to sales over x402. */
  readonly features: readonly Feature[];
}

/** An ability of the shop in addition to sales over x402, as documents about the jobs describe it. */
export interface Feature {
  /** Markdown for agents. */
  readonly guide: string;
  /** Name of the ability's payment protocol. */
  readonly protocol?: string;
  /** Returns further fields of a job's entry in the lists of jobs. */
  entryFields?(job: ListedJob): Readonly<Record<string, string>>;
  /** Returns the payment method that can pay an offer; undefined if no method can. */
  methodFor?(offer: Offer): string | undefined;
  /** The shop as a service of another protocol, for registries of agents. */
  readonly service?: { readonly name: string; readonly endpoint: string; readonly version?: string };
  /** URLs that the ability adds to the list of documents, by name. */
  readonly links?: Readonly<Record<string, string>>;
  /** Routes of the ability in OpenAPI, and the schemas that the routes name. */
  readonly openApi?: Readonly<Record<"paths" | "schemas", Readonly<Record<string, object>>>> & {
    /** Ways to authenticate the payer of a call, by name. */
    readonly securitySchemes?: Readonly<Record<string, object>>;
  };
  /** Headers of the ability's answers, with their descriptions. */
  readonly headers?: Readonly<Record<"accepted" | "paymentRequired", Readonly<Record<string, string>>>>;
}

export function sellerOf(
  config: Pick<
    X402Config,
    | "title"
    | "contact"
    | "logo"
    | "themeColor"
    | "termsOfService"
    | "guidance"
    | "publicUrl"
    | "serviceName"
    | "jobs"
    | "promises"
  >,
  features: readonly Feature[] = [],
): Seller {
  const { publicUrl, contact, logo, themeColor, termsOfService, guidance } = config;
  const isLabel = config.title !== undefined && LABEL.test(config.title);
  const usual = isLabel ? config.title : new URL(publicUrl).hostname.slice(0, MAX_NAME);
  const { serviceName = usual, title = serviceName } = config;
  const promises = new Map(config.promises?.map(({ name, text }) => [name, text]));
  const urls = new JobUrls(config);
  const about = { title, contact, logo, themeColor, termsOfService, guidance };
  return { publicUrl, urls, serviceName, ...about, promises, features };
}

/**
 * Returns the headers that buyers send for a job, without the payment's, and their descriptions. @param range range of the
 * job's price
 */
export function headersOf({
  range,
  access,
}: {
  readonly range: RequestPricing | undefined;
  readonly access: JobAccess | undefined;
}): [string, string][] {
  const priced = range?.headers.map((name): [string, string] => [name, "The price depends on it"]);
  return [...(priced ?? []), ...Object.entries(access?.headers ?? {})];
}

/** Returns the name of a job for people. */
export function jobTitle(job: Pick<Job, "serviceId" | "jobIndex" | "name" | "title" | "route">): string {
  const { serviceId, jobIndex, title } = job;
  return title ?? jobLabel(job) ?? `Job ${jobIndex} of service ${serviceId}`;
}

/** Returns the name of a job for agents. */
export function callName({
  name,
  serviceId,
  jobIndex,
}: Pick<Job, "name" | "serviceId" | "jobIndex">): string {
  return name ?? `job-${serviceId}-${jobIndex}`;
}

/**
 * Returns the price of a job for people: `$0.01`, `up to $0.05`, `1000000000000000 wei`; undefined while the price is not
 * known.
 */
export function listedPriceText(job: Pick<ListedJob, "price" | "charge">): string | undefined {
  if (job.price === undefined) return undefined;
  const { priceWei, currency, range } = job.price;
  const ceiling = hasCeiling(job) ? "up to " : "";
  if (range !== undefined)
    return `${ceiling || `${priceText(range.from)} to `}${priceText(range.upTo)} (${range.rule})`;
  return `${ceiling}${priceText({ unit: currency === "USD" ? "usd" : "wei", amount: priceWei })}`;
}

/** Returns true if buyers of a job always sign a ceiling, of which they may be charged a part. */
export function hasCeiling({ charge = ["before"] }: Pick<ListedJob, "charge">): boolean {
  return charge.every(isPartial);
}

/** Describes a way to pay, for people: `0.01 USDC on eip155:8453`, and the transfer method unless it is EIP-3009. */
export function optionText(offer: ListedOffer): string {
  const { amount, decimals, token, method, isLowest } = offer;
  const ceiling = isLowest ? "from " : isPartial(chargeKindOf(offer)) ? "up to " : "";
  const by = offeredMethod(token) === undefined ? "" : ` by ${method}`;
  return `${ceiling}${formatUnits(BigInt(amount), decimals)} ${token.symbol} on ${token.network}${by}`;
}

/** Returns the sentences that agents read about a job before they buy it. @param unit unit of the price: `call` */
export function saleText(job: ListedJob, seller: Pick<Seller, "promises">, unit: string): string {
  const { description, offers } = job;
  const price = listedPriceText(job);
  const options = offers.length === 0 ? "" : ` (${offers.map(optionText).join(" or ")})`;
  const costs = price === undefined ? [] : [`Costs ${price}${options} a ${unit}.`];
  return [asSentence(description ?? jobTitle(job)), ...costs, ...conditionsOf(job, seller)].join(" ");
}

/**
 * Returns the conditions of a job that buyers should know in addition to its price: the consequence of a failure, and
 * peculiarities of the job's answer and of its buyers.
 */
export function conditionsOf(
  {
    charge = ["before"],
    onFailure = "",
    storeAnswers,
    access,
    requirements,
  }: Pick<ListedJob, "charge" | "onFailure" | "storeAnswers" | "access" | "requirements">,
  { promises }: Pick<Seller, "promises">,
): string[] {
  const forgotten = storeAnswers === false ? "Its answer is forgotten once you have it: keep it." : undefined;
  const notes = requirements.map(({ note }) => note);
  return [...chargeTexts({ charge, onFailure }, promises), forgotten, access?.note, ...notes].filter(
    (text) => text !== undefined,
  );
}

/** Returns texts about the time of the charge, unless it is before the job runs, and about the consequence of a failure. */
export function chargeTexts(
  { charge, onFailure = "" }: { readonly charge: readonly ChargeKind[]; readonly onFailure?: string },
  promises: Seller["promises"],
): string[] {
  const isLate = !charge.includes("before");
  return [isLate ? "It is charged once it has succeeded." : [], promises.get(onFailure) ?? []].flat();
}

/** Ends a text of the seller so that a sentence can follow it. */
export function asSentence(text: string): string {
  return /[.!?…。！？]$/u.test(text) ? text : `${text}.`;
}
