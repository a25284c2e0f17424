import type { Config } from "../../config/config.ts";
import type { GaugeValue, OwnGauge, Part } from "../../part.ts";
import { endpointKeys, jobKeys, limitsOf } from "./config.ts";
import type { KeyLedger } from "./store/ledger.ts";

/** Orders the JobCalls of webhook endpoints by a key, and limits the JobCalls of jobs and endpoints. */
export const part: Part = {
  entries: [jobKeys, endpointKeys],
  // The part always loads, because JobCalls that an earlier configuration ordered can hold keys.
  async load() {
    const { FLOW } = await import("./store/module.ts");
    return (host) => {
      const { store, config, dispatcher, events, logger } = host;
      const ledger = store.of(FLOW);
      const limit = (next: Pick<Config, "x402" | "webhooks">) => dispatcher.limit(limitsOf(next));
      // The key is not logged, because it can name a customer.
      const stopWatch = events.subscribe(
        ({ callId, what }) => {
          if (what.kind === "deadLettered" && what.holdsKeyOf !== undefined)
            logger.warn({ callId, endpoint: what.holdsKeyOf }, "a dead letter holds its key");
        },
        ["deadLettered"],
      );
      return {
        start: async () => limit(config),
        stop: async () => stopWatch(),
        reload: limit,
        ownGauges: keyGauges(ledger),
        operator: {
          async loadApi() {
            const { keyOperations } = await import("./operator.ts");
            return keyOperations({ ledger, workQueue: store, configuration: () => host.config, logger });
          },
          async search(text, limit) {
            const { searchKeys } = await import("./operator.ts");
            return searchKeys(ledger, host.config, text, limit);
          },
        },
      };
    };
  },
};

/** Returns the gauges of keys, and of JobCalls that wait for earlier JobCalls of their keys. */
function keyGauges(ledger: Pick<KeyLedger, "countKeys">): OwnGauge[] {
  return [
    {
      name: "jobgate_order_keys",
      help: "Keys of order_by with unfinished JobCalls, and paused keys, by what they wait for.",
      labels: ["endpoint", "state"],
      async read() {
        const counts = await ledger.countKeys();
        return counts.flatMap(({ owner: endpoint, keys, held, paused }): GaugeValue[] => [
          [keys - held - paused, { endpoint, state: "active" }],
          [held, { endpoint, state: "held" }],
          [paused, { endpoint, state: "paused" }],
        ]);
      },
    },
    {
      name: "jobgate_order_waiting_calls",
      help: "JobCalls that wait for earlier JobCalls of their keys, or for the operator.",
      labels: ["endpoint"],
      async read() {
        const counts = await ledger.countKeys();
        return counts.map(({ owner: endpoint, waiting }): GaugeValue => [waiting, { endpoint }]);
      },
    },
  ];
}
