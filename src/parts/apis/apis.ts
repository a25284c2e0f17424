import type { Logger } from "pino";
import type { Config, X402Config } from "../../config/config.ts";
import { type JobKey, jobKeyText } from "../../core/job-call.ts";
import type { Telemetry } from "../../core/telemetry.ts";
import { RateLimit } from "../../http/limits.ts";
import type { Host } from "../../part.ts";
import type { ShopAddition } from "../../x402/part.ts";
import { HttpRunners } from "../outbound/http-runners.ts";
import { ApiAccess, asksWho } from "./access/api-access.ts";
import { ApiHealth } from "./api-health.ts";
import { type ApiSale, apiRunner } from "./api-runner.ts";
import { ApiTerms } from "./api-terms.ts";
import { apisTable, jobsOf } from "./config.ts";
import { freeRoutes } from "./free-routes.ts";
import { PassThrough } from "./pass-through.ts";
import { PassedAnswers } from "./passed-answers.ts";
import { UnchargedCalls } from "./uncharged-calls.ts";

/** An API under one configuration, with its health check and its pass-through for unpaid requests. */
interface OpenApi {
  readonly sale: ApiSale;
  readonly health: ApiHealth;
  readonly passThrough: PassThrough;
}

/** The APIs whose routes are sold. */
export class Apis {
  readonly #logger: Logger;
  readonly #telemetry: Telemetry;
  readonly #uncharged = new UnchargedCalls();
  readonly #passed = new PassedAnswers();
  /** Requests that do not pay, by API and client. */
  readonly #rates = new RateLimit();
  readonly #runners: HttpRunners<ApiSale>;
  #open: readonly OpenApi[] = [];

  constructor(host: Host) {
    this.#logger = host.logger;
    this.#telemetry = host.telemetry;
    this.#runners = new HttpRunners((sale) =>
      apiRunner(sale, host, { uncharged: this.#uncharged, passed: this.#passed }),
    );
  }

  /** Makes the APIs' additions to the shop of one configuration. No API is called before the additions are applied. */
  open(config: X402Config): ShopAddition {
    const open = salesOf(config).map((sale) => ({
      sale,
      health: new ApiHealth(sale.api, this.#logger),
      passThrough: new PassThrough(sale.api, config, this.#logger),
    }));
    const byJob = new Map(
      open.flatMap((one) =>
        one.sale.jobs.map((job) => [jobKeyText(job.serviceId, job.jobIndex), one] as const),
      ),
    );
    const find = ({ serviceId, jobIndex }: JobKey) => {
      const found = byJob.get(jobKeyText(serviceId, jobIndex));
      return found && { api: found.sale.api, isUp: found.health.isUp, passThrough: found.passThrough };
    };
    const shared = { rates: this.#rates, telemetry: this.#telemetry };
    const accesses = open.flatMap(({ sale }) => sale.api.access);
    return {
      apply: () => this.#replace(open),
      liveAnswers: this.#passed,
      freeRoutes: open.flatMap(({ sale, passThrough }) =>
        freeRoutes(sale.api, config, { ...shared, passThrough }),
      ),
      ...(accesses.length > 0 && {
        access: (shop, { store, limits }) =>
          new ApiAccess({ ...shared, ...shop, publicUrl: config.publicUrl, find, calls: store, limits }),
        needsPayerProof: accesses.some(asksWho),
      }),
      terms: new ApiTerms({
        find,
        inFlight: (name) => this.#runners.find(({ api }) => api.name === name)?.inFlight ?? 0,
        uncharged: this.#uncharged,
      }),
    };
  }

  /** Gives JobCalls to the APIs of a configuration from now on. */
  use({ x402 }: Pick<Config, "x402">): void {
    const sales = x402 === undefined ? [] : salesOf(x402);
    // A runner without a job filter would take all jobs.
    this.#runners.use(sales.filter(({ jobs }) => jobs.length > 0));
  }

  async stop(): Promise<void> {
    await this.#runners.stop();
    for (const { passThrough } of this.#open) void passThrough.close();
    this.#replace([]);
  }

  #replace(open: readonly OpenApi[]): void {
    for (const { health } of this.#open) void health.stop();
    this.#open = open;
    for (const { health } of open) health.start();
  }
}

function salesOf({ parts, jobs, publicUrl }: Pick<X402Config, "parts" | "jobs" | "publicUrl">): ApiSale[] {
  const apis = apisTable.in({ parts }) ?? [];
  return apis.map((api) => ({ api, jobs: jobsOf(api.name, jobs), publicUrl }));
}
