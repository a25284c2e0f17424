import { monotonicClock, systemClock } from "../../core/clock.ts";
import type { Part } from "../../part.ts";

/** The operator's listener: the API, health, and what parts add. */
export const part: Part = {
  paths: { operator: ["/healthz", "/readyz", "/jobgate.v1.OperatorService/"] },
  async load({ operator: { bindAddress } }, loadMethods) {
    const [{ OperatorServer }, { UntakenJobs }] = await Promise.all([
      import("./server.ts"),
      import("./untaken-jobs.ts"),
    ]);
    return (host) => {
      const { store, events, telemetry, logger } = host;
      const runners = () => host.runners();
      const configuration = () => host.config;
      const untaken = new UntakenJobs({
        ...{ store, runners, configuration, logger },
        reserved: () => host.dispatcher.reserved,
        clock: monotonicClock,
      });
      const server = new OperatorServer({
        server: host.serverAt(bindAddress),
        tokens: () => host.config.operator.tokens,
        sources: {
          store,
          events,
          listeners: () => host.listeners,
          isOpen: () => host.isOpen,
          rates: () => host.rates(),
          ...{ runners, configuration, untaken },
          jobs: () => host.jobs(),
          loadMethods,
          additions: () => host.additions("operator"),
          holdings: () => host.additions("holdings"),
          counters: telemetry.counters,
          histograms: telemetry.histograms,
          clock: systemClock,
        },
        logger,
      });
      return {
        listener: { name: "operator", table: "operator", bindAddress, service: server, isFirst: true },
        ownGauges: [untaken.gauge],
        async open() {
          await server.start();
          await untaken.start();
        },
        // A socket closes only once its streams have ended, and a gateway may share the operator's socket.
        async close() {
          server.endStreams();
          // Ended streams are no reason to log. A hanging store must not delay the end of the streams.
          void untaken.stop();
        },
        async stop() {
          await untaken.stop();
          await server.stop();
        },
      };
    };
  },
};
