import type { Part } from "../../part.ts";
import { knownServices } from "./known-services.ts";

/** Prices and quotes of the operator's pricing engine, and the engine's own service for clients. */
export const part: Part = {
  async load({ pricingEngine: config }) {
    if (config === undefined) return undefined;
    const [{ PricingEngine }, { PricingServer }] = await Promise.all([
      import("../../pricing/pricing-engine.ts"),
      import("../../pricing/pricing-server.ts"),
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
      const server = new PricingServer({
        config,
        client: engine.client,
        ...(host.config.x402 && { findPayment: (quote) => host.quotePayment(quote) }),
        logger,
      });
      return {
        engine: { prices: engine.prices },
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

  async findProblems({ pricingEngine, serviceId, x402 }) {
    if (pricingEngine === undefined) return [];
    const { findEngineProblems, jobsToAskFor } = await import("../../pricing/online-check.ts");
    return findEngineProblems(pricingEngine, jobsToAskFor(serviceId, x402));
  },
};
