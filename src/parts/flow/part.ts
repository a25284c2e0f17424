import type { Config } from "../../config/config.ts";
import type { GaugeValue, OwnGauge, Part } from "../../part.ts";
import { endpointKeys, jobKeys, limitsOf } from "./config.ts";
import type { KeyLedger } from "./store/ledger.ts";

/** Orders the JobCalls of webhook endpoints by a key, and limits the JobCalls of jobs and endpoints. */
export const part: Part = {
  entries: [jobKeys, endpointKeys],
  // Keys can be held by JobCalls that an earlier configuration ordered.
  async load() {
    const { FLOW } = await import("./store/module.ts");
    return ({ store, config, dispatcher }) => {
      const ledger = store.of(FLOW);
      const limit = (next: Pick<Config, "x402" | "webhooks">) => dispatcher.limit(limitsOf(next));
      return {
        start: async () => limit(config),
        reload: limit,
        ownGauges: keyGauges(ledger),
        operator: {
          async loadApi() {
            const { heldKeysOperation } = await import("./operator.ts");
            return heldKeysOperation(ledger);
          },
        },
      };
    };
  },
};

/** Returns the gauges of keys and of the JobCalls that wait for others of their keys. */
function keyGauges(ledger: Pick<KeyLedger, "countKeys">): OwnGauge[] {
  return [
    {
      name: "jobgate_order_keys",
      help: "Keys of order_by with unfinished JobCalls, by whether a dead letter holds the key up.",
      labels: ["endpoint", "state"],
      async read() {
        const counts = await ledger.countKeys();
        return counts.flatMap(({ owner: endpoint, keys, held }): GaugeValue[] => [
          [keys - held, { endpoint, state: "active" }],
          [held, { endpoint, state: "held" }],
        ]);
      },
    },
    {
      name: "jobgate_order_waiting_calls",
      help: "JobCalls that wait for earlier JobCalls of their keys.",
      labels: ["endpoint"],
      async read() {
        const counts = await ledger.countKeys();
        return counts.map(({ owner: endpoint, waiting }): GaugeValue => [waiting, { endpoint }]);
      },
    },
  ];
}
