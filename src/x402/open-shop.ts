import type { X402Config } from "../config/config.ts";
import { jobKeyText } from "../core/job-call.ts";
import type { PageAccess } from "../http/cors.ts";
import { SentResults } from "./calls/sent-results.ts";
import { accessOfPages } from "./cors.ts";
import { JobDescriptions } from "./jobs/job-descriptions.ts";
import { JobRoutes } from "./jobs/job-routes.ts";
import { sellerOf } from "./jobs/seller.ts";
import type { ShopAddition, X402Part } from "./part.ts";
import { SealedOffers } from "./prices/offer-book.ts";
import { X402Producer } from "./producer.ts";
import { AdoptedPayments } from "./purchase/adopted-payments.ts";
import { Checkout } from "./purchase/checkout.ts";
import { EarlierPayments } from "./purchase/earlier-payments.ts";
import { InputChecks } from "./purchase/input-checks.ts";
import { Purchase } from "./purchase/purchase.ts";
import { Refusals } from "./purchase/refused-payments.ts";
import { accessTo, type Terms } from "./purchase/terms.ts";
import { Verification } from "./purchase/verification.ts";
import { type ShopRoutes, shopRoutes } from "./routes.ts";
import type { Services } from "./services.ts";
import type { Shop } from "./shop.ts";
import { AnswerExtensions, ExtensionEchoes } from "./wire/extensions.ts";

/** A shop, with its routes and its access for web pages. */
export interface OpenShop extends Shop {
  readonly way: ShopRoutes;
  /** Rights of web pages in this shop. */
  readonly access: PageAccess;
}

/** A shop that is ready to open. */
export interface PreparedShop {
  readonly config: X402Config;
  readonly additions: readonly ShopAddition[];
  readonly inputs: InputChecks;
}

/** Builds everything in a shop that might fail, and changes nothing. */
export async function prepareShop(
  { bodies, limits }: Services,
  { config, parts }: { readonly config: X402Config; readonly parts: readonly X402Part[] },
): Promise<PreparedShop> {
  const opened = await Promise.all(parts.map(async (part) => part.open(config)));
  const additions = opened.filter((addition) => addition !== undefined);
  requireRestricted(config, termsOf(additions));
  requirePayerProof(additions);
  const inputs = await InputChecks.compile(config, { bodies, limits });
  return { config, additions, inputs };
}

/**
 * Opens a shop, whose configuration the services apply from then on.
 * @param before the shop that it replaces, whose declarations in 402s stay valid while its offers are open
 */
export async function openShop(
  services: Services,
  { config, additions, inputs }: PreparedShop,
  before: Shop | undefined,
): Promise<OpenShop> {
  const { jobs = [], acceptedTokens: tokens } = config;
  const { store, payments, limits, stats, methods, clock } = services;
  const { facilitators, evidence, funds, settlement, inProgress } = payments;
  await services.reload(config);
  for (const addition of additions) addition.apply?.();

  const protocols = additions.flatMap(({ protocols = {} }) => Object.keys(protocols));
  const routes = new JobRoutes(
    config,
    ["x402", ...protocols],
    additions.flatMap(({ freeRoutes = [] }) => freeRoutes),
  );
  const byJob = new Map(additions.flatMap(({ requestPrices = [] }) => [...requestPrices]));
  const ofRequests = { byJob, routes, limits, sealed: new SealedOffers(services.tokens) };
  const terms = termsOf(additions);
  const namedPrices = additions.flatMap((addition) => addition.namedPrices ?? []);
  const { book: prices, listing } = services.prices.at(config, ofRequests, { terms, namedPrices });
  const features = additions.flatMap(({ feature }) => feature ?? []);
  const seller = sellerOf(config, features);
  const descriptions = new JobDescriptions({
    jobs,
    seller,
    methods,
    declares: additions.flatMap(({ declares }) => declares ?? []),
    facilitators,
    terms,
  });
  const echoes = new ExtensionEchoes({ descriptions, methods, clock });
  if (before) echoes.replaces(before.echoes, before.config.quoteTtlSecs);
  const verification = new Verification({ facilitators, evidence, funds, descriptions, limits });
  const purchase = new Purchase({
    store,
    verification,
    settlement,
    inProgress,
    adopted: new AdoptedPayments({ ledger: store, verification }),
    earlier: new EarlierPayments({ journal: store, tokens }),
    producer: new X402Producer(config),
    routes,
    stats,
    echoes,
    undecidedLimits: config,
    terms,
    purchaseNames: methods.purchaseNames,
    limits,
  });
  const payerProof = additions.find((addition) => addition.payerProof)?.payerProof;
  const notes = terms.flatMap((one) => one.notes ?? []);
  const checkout = new Checkout({ routes, prices, inputs, notes, purchase, limits });
  const shop: Shop = {
    config,
    seller,
    routes,
    waitSecs: new Map(
      jobs.flatMap(({ serviceId, jobIndex, waitSecs }) =>
        waitSecs === undefined ? [] : [[jobKeyText(serviceId, jobIndex), waitSecs]],
      ),
    ),
    prices,
    listing,
    descriptions,
    echoes,
    verification,
    checkout,
    refusals: new Refusals({ ...services, listing }),
    sent: new SentResults({ ...services, jobs }),
    extensions: new AnswerExtensions(additions.flatMap(({ extensions }) => extensions ?? [])),
    live: additions.find(({ liveAnswers }) => liveAnswers)?.liveAnswers,
    payerProof,
    accesses: additions.flatMap((addition) => addition.access?.({ checkout, payerProof }, services) ?? []),
    pages: additions.find(({ pages }) => pages)?.pages?.({ listing, seller }),
    messageProtocol: additions.find(({ messageProtocol }) => messageProtocol)?.messageProtocol,
  };
  const pageHeaders = additions.flatMap((addition) => addition.pageHeaders ?? []);
  return {
    ...shop,
    way: shopRoutes(services, shop, additions),
    access: accessOfPages(config, pageHeaders, methods.versions),
  };
}

function termsOf(additions: readonly ShopAddition[]): readonly Terms[] {
  return additions.flatMap(({ terms }) => terms ?? []);
}

/** @throws Error for a restricted job that no terms restrict, because everyone could run it */
function requireRestricted({ jobPolicies }: X402Config, terms: readonly Terms[]): void {
  for (const { serviceId, jobIndex, invocationMode } of jobPolicies) {
    if (invocationMode !== "restricted_paid" || accessTo({ serviceId, jobIndex }, terms) !== undefined)
      continue;
    throw new Error(
      `job ${jobKeyText(serviceId, jobIndex)} is restricted, and no part of this build restricts jobs`,
    );
  }
}

/** @throws Error if a part needs a proof of payers, and no part of the build provides one */
function requirePayerProof(additions: readonly ShopAddition[]): void {
  if (!additions.some(({ needsPayerProof }) => needsPayerProof)) return;
  if (additions.some(({ payerProof }) => payerProof)) return;
  throw new Error(
    "the configuration lets payers sign in for access, and this build has no part for signing in",
  );
}
