import type { X402Config } from "../config/config.ts";
import type { PayerProof } from "./calls/access-tokens.ts";
import type { LiveAnswers } from "./calls/live-answers.ts";
import type { SentResults } from "./calls/sent-results.ts";
import type { JobDescriptions } from "./jobs/job-descriptions.ts";
import type { JobRoutes } from "./jobs/job-routes.ts";
import type { Listing } from "./jobs/listing.ts";
import type { Seller } from "./jobs/seller.ts";
import type { PriceBook } from "./prices/price-book.ts";
import type { MessageProtocol, Pages } from "./protocols/protocol.ts";
import type { Checkout } from "./purchase/checkout.ts";
import type { Refusals } from "./purchase/refused-payments.ts";
import type { UnpaidAccess } from "./purchase/terms.ts";
import type { Verification } from "./purchase/verification.ts";
import type { AnswerExtensions, ExtensionEchoes } from "./wire/extensions.ts";

/** Everything that sells jobs under one configuration. A reload opens another shop, and the gateway swaps them. */
export interface Shop {
  readonly config: X402Config;
  readonly seller: Seller;
  /** The jobs that are sold at routes of their own. */
  readonly routes: JobRoutes;
  /** Time for which paid requests wait for their results, for jobs that answer with results, by `jobKeyText`. */
  readonly waitSecs: ReadonlyMap<string, number>;
  readonly prices: PriceBook;
  /** The jobs for sale. */
  readonly listing: Listing;
  readonly descriptions: JobDescriptions;
  readonly echoes: ExtensionEchoes;
  readonly verification: Verification;
  readonly checkout: Checkout;
  readonly refusals: Refusals;
  readonly sent: SentResults;
  readonly extensions: AnswerExtensions;
  readonly live: LiveAnswers | undefined;
  readonly payerProof: PayerProof | undefined;
  /** Ways to run jobs without a payment. */
  readonly accesses: readonly UnpaidAccess[];
  readonly pages: Pages | undefined;
  readonly messageProtocol: MessageProtocol | undefined;
}
