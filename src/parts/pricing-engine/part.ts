import type { JobPolicy } from "../../config/config.ts";
import type { Part } from "../../part.ts";
import { engineTable } from "./config.ts";
import { QUOTES } from "./store/module.ts";

/** Prices and quotes of the operator's pricing engine, and the engine's own service for clients. */
export const part: Part = {
  table: engineTable,
  async load(whole) {
    const config = engineTable.in(whole);
    if (config === undefined) return undefined;
    const [{ PricingEngine }, { PricingServer }, { EngineJobs }, { QuoteSales }] = await Promise.all([
      import("./pricing-engine.ts"),
      import("./pricing-server.ts"),
      import("./engine-jobs.ts"),
      import("./quote-sales.ts"),
    ]);
    return (host) => {
      const { logger, telemetry } = host;
      let services = knownServices(host.config);
      const engine = new PricingEngine({
        config,
        isKnownService: (serviceId) => services.has(serviceId),
        logger,
        telemetry,
      });
      const sales = new QuoteSales({
        ledger: host.store.of(QUOTES),
        jobs: engine.quotes && new EngineJobs(engine.quotes, logger),
      });
      const server = new PricingServer({
        config,
        client: engine.client,
        findPayment: host.config.x402 && sales.findPayment,
        logger,
      });
      return {
        x402: sales,
        sources: { prices: engine.prices },
        listener: {
          name: "pricing",
          table: "pricing_engine",
          bindAddress: config.bindAddress,
          service: server,
        },
        open: () => server.start(),
        reload(next) {
          services = knownServices(next);
        },
        close: () => server.stop(),
        stop: () => engine.stop(),
      };
    };
  },

  // Pages may send the header whatever the configuration is, because without an engine the header names nothing.
  async x402() {
    const { QUOTE_HEADER } = await import("./quoted-prices.ts");
    return { open: () => ({ pageHeaders: { sent: [QUOTE_HEADER], read: [] } }) };
  },

  async checkPeers(config) {
    const engine = engineTable.in(config);
    if (engine === undefined) return { notes: [], problems: [] };
    const { findEngineProblems, jobsToAskFor } = await import("./online-check.ts");
    const problems = await findEngineProblems(engine, jobsToAskFor(config.serviceId, config.x402));
    return { notes: [], problems };
  },
};

/** Returns the services of a configuration: its own service, and the services of jobs that are enabled, described or priced. */
export function knownServices({
  serviceId,
  x402,
}: {
  readonly serviceId: bigint;
  readonly x402?: {
    readonly jobPolicies: readonly JobPolicy[];
    readonly jobs?: readonly { readonly serviceId: bigint }[];
    /** Keys are `service/job`. */
    readonly jobPricing: ReadonlyMap<string, unknown>;
  };
}): ReadonlySet<bigint> {
  const enabled = (x402?.jobPolicies ?? []).filter(({ invocationMode }) => invocationMode !== "disabled");
  const priced = [...(x402?.jobPricing.keys() ?? [])].map((job) => BigInt(job.slice(0, job.indexOf("/"))));
  const described = (x402?.jobs ?? []).map((job) => job.serviceId);
  return new Set([serviceId, ...enabled.map((policy) => policy.serviceId), ...priced, ...described]);
}
