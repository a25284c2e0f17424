import type { X402Config } from "../config/config.ts";
import { CallbackGuard } from "../core/callbacks.ts";
import { bazaarExtension } from "./catalogue/bazaar.ts";
import { JobDescriptions } from "./jobs/job-descriptions.ts";
import type { Listing } from "./jobs/listing.ts";
import { type Seller, sellerOf } from "./jobs/seller.ts";
import type { PriceBook } from "./prices/price-book.ts";
import type { QuotePayment, ReceivedQuote } from "./prices/quotes.ts";
import { X402Producer } from "./producer.ts";
import { AdoptedPayments } from "./purchase/adopted-payments.ts";
import { Checkout } from "./purchase/checkout.ts";
import { EarlierPayments } from "./purchase/earlier-payments.ts";
import { ExtensionEchoes } from "./purchase/extension-echoes.ts";
import { InputChecks } from "./purchase/input-checks.ts";
import { Purchase } from "./purchase/purchase.ts";
import { Verification } from "./purchase/verification.ts";
import type { ReceiptSigner } from "./receipts/receipt-signer.ts";
import type { Services } from "./services.ts";
import { IdentifierRule } from "./wire/payment-identifier.ts";

/** All that sells jobs at one configuration. A reload opens another shop, and the gateway swaps them. */
export interface Shop {
  readonly config: X402Config;
  readonly seller: Seller;
  readonly prices: PriceBook;
  /** Returns the ways to pay a quote of the pricing engine here; undefined when it cannot be paid. */
  readonly quotePayment: (quote: ReceivedQuote) => Promise<QuotePayment | undefined>;
  /** The jobs for sale. */
  readonly listing: Listing;
  readonly descriptions: JobDescriptions;
  readonly echoes: ExtensionEchoes;
  readonly verification: Verification;
  readonly checkout: Checkout;
  readonly receipts: ReceiptSigner | undefined;
}

/**
 * Opens the shop of a configuration, which the services apply from then on.
 * @param of `before` is the shop that it replaces: what its 402s declared stays valid while its offers are open
 */
export async function openShop(
  services: Services,
  of: { readonly config: X402Config; readonly before: Shop | undefined; readonly sendsCallbacks: boolean },
): Promise<Shop> {
  const { config, before, sendsCallbacks } = of;
  const { jobs = [], acceptedTokens: tokens, maxBodyBytes } = config;
  const { store, payments, callerAuth, bodies, limits, stats, clock } = services;
  const { facilitators, evidence, funds, settlement, inProgress } = payments;
  const receipts = await receiptSigner(config, services);
  const inputs = await InputChecks.compile(jobs, { bodies, limits });
  await services.reload(config);

  const { book: prices, listing, quotePayment } = services.prices.at(config);
  const identifiers = new IdentifierRule(jobs);
  const seller = sellerOf(config);
  const descriptions = new JobDescriptions({
    jobs,
    seller,
    declares: [bazaarExtension, (job) => ({ extensions: identifiers.declaration(job) })],
    extensionsOf: (network) => facilitators.extensionsOf(network),
  });
  const echoes = new ExtensionEchoes({ declared: (job) => descriptions.of(job).extensions, clock });
  if (before) echoes.replaces(before.echoes, before.config.quoteTtlSecs);
  const verification = new Verification({ facilitators, evidence, funds, descriptions, limits });
  const purchase = new Purchase({
    callerAuth,
    store,
    verification,
    settlement,
    inProgress,
    identifiers,
    adopted: new AdoptedPayments({ ledger: store, verification }),
    earlier: new EarlierPayments({ journal: store, tokens }),
    producer: new X402Producer(config),
    stats,
    echoes,
    undecidedLimits: config,
  });
  const callbacks = sendsCallbacks && config.callbacks ? new CallbackGuard(config.callbacks) : undefined;
  const checkout = new Checkout({ prices, inputs, callbacks, purchase, limits, maxBodyBytes });
  return {
    config,
    seller,
    prices,
    quotePayment,
    listing,
    descriptions,
    echoes,
    verification,
    checkout,
    receipts,
  };
}

/** Makes the signer of offers and receipts, if one is configured. Only then is what it signs with loaded. */
async function receiptSigner({ receipts: config, publicUrl }: X402Config, { clock }: Services) {
  if (config === undefined) return undefined;
  const { ReceiptSigner } = await import("./receipts/receipt-signer.ts");
  return new ReceiptSigner({ config, publicUrl, clock });
}
