import type { Config } from "../../config/config.ts";
import type { Part } from "../../part.ts";
import { buyersTable, callbacksTable } from "./config.ts";
import { CALLBACK_GAUGES } from "./gauges.ts";
import { CALLBACKS } from "./store/module.ts";

/** Sends callbacks about events to operators and buyers. */
export const part: Part = {
  table: [callbacksTable, buyersTable],
  paths: { x402: ["/.well-known/jobgate-keys.json"] },
  async load() {
    const [{ CallbackGuard, callbackHeader }, { CallbackKeys }, { CallbackSender }] = await Promise.all([
      import("./callback-guard.ts"),
      import("./callback-keys.ts"),
      import("./callback-sender.ts"),
    ]);
    return (host) => {
      const { store, events, logger } = host;
      const ledger = store.of(CALLBACKS);
      const keys = new CallbackKeys((candidate) => store.keepSecret("callbacks", candidate));
      const sender = new CallbackSender({
        ledger,
        store,
        keys,
        callUrl: (callId) => `${host.config.x402?.publicUrl}/x402/calls/${callId}`,
        events,
        logger,
      });
      const use = async (config: Config) => {
        const own = callbacksTable.in(config);
        const signing = own?.keys ?? [];
        await keys.load(signing);
        await sender.use({ endpoints: own?.endpoints ?? [], buyers: buyersTable.in(config) });
        await keys.use(signing);
      };
      return {
        x402: {
          open(x402) {
            const rules = buyersTable.in(x402);
            return { ...callbackHeader(rules && new CallbackGuard(rules)), routes: () => [keys.route] };
          },
        },
        ownGauges: [...CALLBACK_GAUGES, sender.tries.counter],
        operator: {
          loadApi: async () => (await import("./operator.ts")).callbackOperation({ ledger, sender }),
        },
        async start() {
          await use(host.config);
          await sender.start();
        },
        write: use,
        stop: () => sender.stop(),
      };
    };
  },
};
