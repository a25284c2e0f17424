import { systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";

/** The operator's listener: the API, health, and what parts add. */
export const part: Part = {
  paths: { operator: ["/healthz", "/readyz", "/jobgate.v1.OperatorService/"] },
  async load({ operator: { bindAddress } }, loadMethods) {
    const { OperatorServer } = await import("./server.ts");
    return (host) => {
      const { store, events, telemetry, logger } = host;
      const server = new OperatorServer({
        server: host.serverAt(bindAddress),
        tokens: () => host.config.operator.tokens,
        sources: {
          store,
          events,
          listeners: () => host.listeners,
          isOpen: () => host.isOpen,
          rates: () => host.rates(),
          runners: () => host.runners(),
          jobs: () => host.jobs(),
          loadMethods,
          additions: () => host.additions("operator"),
          counters: telemetry.counters,
          histograms: telemetry.histograms,
          configuration: () => host.config,
          clock: systemClock,
        },
        logger,
      });
      return {
        listener: { name: "operator", table: "operator", bindAddress, service: server, isFirst: true },
        open: () => server.start(),
        // A socket closes only once its streams have ended, and a gateway may share the operator's socket.
        close: async () => server.endStreams(),
        stop: () => server.stop(),
      };
    };
  },
};
