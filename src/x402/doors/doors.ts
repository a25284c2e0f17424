import type { Logger } from "pino";
import type { X402Config } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import type { ErrorCode } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import type { CallLookup } from "../../store/contract/call-lookup.ts";
import type { Telemetry } from "../../telemetry/telemetry.ts";
import type { CallerAuth } from "../callers/caller-auth.ts";
import type { AccessTokens } from "../calls/access-tokens.ts";
import { ResultWaits } from "../calls/wait-for-result.ts";
import type { WaitPlaces } from "../calls/wait-places.ts";
import type { CallWatch } from "../calls/watch.ts";
import type { JobDescriptions } from "../jobs/job-descriptions.ts";
import type { Listing } from "../jobs/listing.ts";
import type { Seller } from "../jobs/seller.ts";
import { PaymentPages } from "../pages/shop-pages.ts";
import type { PriceBook } from "../prices/price-book.ts";
import type { Checkout } from "../purchase/checkout.ts";
import type { ClientLimits } from "../purchase/client-limits.ts";
import { DryRunRoute } from "../purchase/dry-run-route.ts";
import { JobRoute } from "../purchase/job-route.ts";
import type { Refusals, RefusedPayments } from "../purchase/refused-payments.ts";
import type { Verification } from "../purchase/verification.ts";
import type { ReceiptSigner } from "../receipts/receipt-signer.ts";
import type { X402Stats } from "../stats.ts";
import type { Door } from "./door.ts";
import { McpRoute } from "./mcp/mcp-route.ts";
import { McpServer } from "./mcp/mcp-server.ts";
import { Sessions } from "./mcp/sessions.ts";
import { Challenges } from "./mpp/challenges.ts";
import { BLUEPRINT, EVM, type MppMethod } from "./mpp/methods.ts";
import { MppDoor } from "./mpp/mpp-door.ts";
import { SharedDoor } from "./shared-door.ts";
import { X402Door } from "./x402-door.ts";

interface Parts {
  readonly callerAuth: CallerAuth;
  readonly calls: CallLookup;
  readonly watch: CallWatch;
  readonly places: WaitPlaces;
  readonly tokens: AccessTokens;
  readonly limits: ClientLimits;
  readonly refused: RefusedPayments;
  readonly stats: X402Stats;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  readonly waits: { readonly toolMs: number; readonly longToolMs: number };
}

/** Parts of one configuration. */
interface Shop {
  readonly listing: Listing;
  readonly checkout: Checkout;
  readonly descriptions: JobDescriptions;
  readonly seller: Seller;
  readonly receipts: ReceiptSigner | undefined;
  readonly prices: PriceBook;
  readonly verification: Verification;
}

/** Every protocol that clients buy in, each as a door to the same checkout. */
export class Doors {
  readonly #parts: Parts;
  readonly #waits: ResultWaits;
  readonly #sessions: Sessions;
  #challenges: Challenges | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#waits = new ResultWaits(parts);
    this.#sessions = new Sessions(parts.tokens);
  }

  /** Returns the routes at a configuration. Challenges and sessions outlive it. */
  open(
    config: X402Config,
    { listing, checkout, descriptions, seller, receipts, prices, verification }: Shop,
  ) {
    const { callerAuth, calls, watch, places, tokens, limits, refused, stats, logger, telemetry, waits } =
      this.#parts;
    const { publicUrl, maxBodyBytes } = config;
    const sessions = this.#sessions;
    const mppBy = this.#mppOf(config);
    const mpp = mppBy?.(EVM);
    const x402 = new X402Door({ descriptions, pages: new PaymentPages({ listing, seller }), receipts });
    const door = mpp ? new SharedDoor({ x402, mpp }) : x402;
    const count = (code: ErrorCode, job: JobKey) => {
      stats.countRefusal(code);
      const labels = { service_id: String(job.serviceId), job_id: String(job.jobIndex), error: code };
      if (listing.has(job)) telemetry.count("jobgate_job_refusals_total", labels);
    };
    const refusals: Refusals = {
      count,
      add(refusal, request) {
        count(refusal.code, request.job);
        refused.note(refusal, request);
      },
    };
    const route = (door: Door) =>
      new JobRoute({ door, checkout, waits: this.#waits, tokens, receipts, refusals, publicUrl, logger });
    const server = new McpServer({
      listing,
      checkout,
      descriptions,
      calls,
      watch,
      places,
      tokens,
      limits,
      mpp,
      seller,
      receipts,
      refusals,
      waits,
      logger,
    });
    const { allowedOrigins } = config.mcp ?? {};
    return {
      job: route(door),
      mppJob: mppBy && route(mppBy(BLUEPRINT)),
      mcp: allowedOrigins && new McpRoute({ server, sessions, allowedOrigins, publicUrl, maxBodyBytes }),
      dryRun: new DryRunRoute({
        door,
        checkout,
        prices,
        callerAuth,
        verification,
        limits,
        stats,
        maxBodyBytes,
      }),
    };
  }

  /** Returns what makes a door for each method of MPP; undefined if it is not configured. */
  #mppOf({ mpp: config, acceptedTokens: tokens }: X402Config): ((method: MppMethod) => MppDoor) | undefined {
    if (config === undefined) return undefined;
    const { clock, stats } = this.#parts;
    if (this.#challenges === undefined) this.#challenges = new Challenges({ config, clock });
    else this.#challenges.reload(config);
    const challenges = this.#challenges;
    return (method) => new MppDoor({ method, challenges, tokens, stats });
  }
}
