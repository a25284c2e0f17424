import type { X402Config } from "../config/config.ts";
import type { JobKey } from "../core/job-call.ts";
import type { MethodHandlers, Routes } from "../http/routes.ts";
import type { PayerProof } from "./calls/access-tokens.ts";
import type { LiveAnswers } from "./calls/live-answers.ts";
import type { PageHeaders } from "./cors.ts";
import type { DeclareExtensions } from "./jobs/job-descriptions.ts";
import type { FreeRoute } from "./jobs/job-routes.ts";
import type { Feature } from "./jobs/seller.ts";
import type { MakeNamedPrices } from "./prices/price.ts";
import type { RequestPrices } from "./prices/request-prices.ts";
import type { MessageProtocol, Pages, PaymentProtocol } from "./protocols/protocol.ts";
import type { Terms, UnpaidAccess } from "./purchase/terms.ts";

import type { Services } from "./services.ts";
import type { Shop } from "./shop.ts";
import type { ExtendsAnswers } from "./wire/extensions.ts";

/** A part's work in the gateway that sells jobs. It exists for longer than one configuration. */
export interface X402Part {
  /**
   * Returns the part's additions under a configuration, at the start and at each reload; undefined if the configuration does
   * not use the part. Changes nothing yet, because the reload may be refused. {@link ShopAddition.apply} applies the
   * additions.
   */
  open(config: X402Config): ShopAddition | undefined | Promise<ShopAddition | undefined>;
}

/** Loads the parts' work in the gateway. */
export type LoadX402Parts = (services: Services) => Promise<readonly X402Part[]>;

/** Additions of a part to the shop of one configuration. */
export interface ShopAddition {
  /** Applies the configuration to state that outlives the configuration, when the shop opens. */
  apply?(): void;
  /** Declares extensions in the 402s of each job. */
  readonly declares?: DeclareExtensions;
  /** Adds extensions that depend on the offers of a 402, and extensions of settlements that come with results. */
  readonly extensions?: ExtendsAnswers;
  /** Lets buyers receive answers while they arrive. */
  readonly liveAnswers?: LiveAnswers;
  /** Recognises payers who do not have the access token of their call. */
  readonly payerProof?: PayerProof;
  /** Lets known clients run jobs without a payment. */
  access?(shop: Pick<Shop, "checkout" | "payerProof">, services: Services): UnpaidAccess;
  /** True if {@link access} needs a {@link payerProof}, which another part makes. */
  readonly needsPayerProof?: boolean;
  /** Accepts payments on the jobs' own routes over another protocol, which takes precedence over x402. */
  protocol?(x402: PaymentProtocol): PaymentProtocol;
  /** Further protocols: each sells jobs at `/{name}/jobs/{service}/{job}`. */
  readonly protocols?: Readonly<Record<string, PaymentProtocol>>;
  /** Accepts payments in JSON-RPC messages, in addition to x402. */
  readonly messageProtocol?: MessageProtocol;
  /** Makes pages for browsers. */
  pages?(shop: Pick<Shop, "listing" | "seller">): Pages;
  /** Describes the ability that the part gives to clients. */
  readonly feature?: Feature;
  /** Headers of the part's requests and answers, for web pages. */
  readonly pageHeaders?: PageHeaders;
  /** Conditions on the sale of jobs. */
  readonly terms?: Terms;
  /** Prices of the jobs whose price depends on the request, by `jobKeyText`. */
  readonly requestPrices?: ReadonlyMap<string, RequestPrices>;
  /** Makes the prices that requests name, which replace their jobs' prices, when the shop opens. */
  readonly namedPrices?: MakeNamedPrices;
  /** Answers that are not for sale, at paths that are matched together with the jobs' paths. */
  readonly freeRoutes?: readonly FreeRoute[];
  /** Routes of the part below each job, at `/x402/jobs/{service}/{job}` followed by the tail, which begins with `/`. */
  belowJobs?(
    shop: Shop,
    x402: PaymentProtocol,
  ): Iterable<readonly [tail: string, handlersOf: (job: JobKey) => MethodHandlers]>;
  /** Routes of the part. The gateway refuses to start if another part has the same route. */
  routes?(shop: Shop): Routes;
}
