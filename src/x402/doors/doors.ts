import type { X402Config } from "../../config/config.ts";
import type { ErrorCode } from "../../core/errors.ts";
import type { JobKey } from "../../core/job-call.ts";
import { PaymentPages } from "../pages/shop-pages.ts";
import { DryRunRoute } from "../purchase/dry-run-route.ts";
import { JobRoute } from "../purchase/job-route.ts";
import type { Refusals } from "../purchase/refused-payments.ts";
import type { Services } from "../services.ts";
import type { Shop } from "../shop.ts";
import type { Door } from "./door.ts";
import { McpRoute } from "./mcp/mcp-route.ts";
import { McpServer } from "./mcp/mcp-server.ts";
import { Sessions } from "./mcp/sessions.ts";
import { Challenges } from "./mpp/challenges.ts";
import { BLUEPRINT, EVM, type MppMethod } from "./mpp/methods.ts";
import { MppDoor } from "./mpp/mpp-door.ts";
import { SharedDoor } from "./shared-door.ts";
import { X402Door } from "./x402-door.ts";

/** Every protocol that clients buy in, each as a door to the same checkout. */
export class Doors {
  readonly #services: Services;
  readonly #sessions: Sessions;
  #challenges: Challenges | undefined;

  constructor(services: Services) {
    this.#services = services;
    this.#sessions = new Sessions(services.tokens);
  }

  /** Returns the routes of a shop. Challenges and sessions outlive it. */
  open({ config, listing, checkout, descriptions, seller, receipts, prices, verification }: Shop) {
    const {
      store: calls,
      callerAuth,
      watch,
      places,
      waits,
      tokens,
      limits,
      refused,
      stats,
      logger,
    } = this.#services;
    const { telemetry, periods } = this.#services;
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
      new JobRoute({ door, checkout, waits, tokens, receipts, refusals, publicUrl, logger });
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
      waits: periods,
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
    const { clock, stats } = this.#services;
    if (this.#challenges === undefined) this.#challenges = new Challenges({ config, clock });
    else this.#challenges.reload(config);
    const challenges = this.#challenges;
    return (method) => new MppDoor({ method, challenges, tokens, stats });
  }
}
