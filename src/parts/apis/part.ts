import type { Config } from "../../config/config.ts";
import type { Part } from "../../part.ts";
import type { Apis } from "./apis.ts";
import { apiJobKeys, apisTable } from "./config.ts";

/** Sells the routes of HTTP APIs: jobgate is the runner of their jobs. */
export const part: Part = {
  table: apisTable,
  entries: apiJobKeys,
  async load(config) {
    // The HTTP client is loaded only if there is an API. A reload may add the first API.
    const load = () => import("./apis.ts");
    const hasApis = (next: Pick<Config, "parts">) => (apisTable.in(next) ?? []).length > 0;
    if (hasApis(config)) await load();
    const [{ JobReservation }, { RESERVED_JOBS }] = await Promise.all([
      import("./reserved-jobs.ts"),
      import("./store/module.ts"),
    ]);
    return (host) => {
      const { store, dispatcher, logger } = host;
      const reservation = new JobReservation({ ledger: store.of(RESERVED_JOBS), dispatcher, logger });
      let apis: Apis | undefined;
      const at = async (next: Pick<Config, "parts">) => {
        if (apis === undefined && hasApis(next)) apis = new (await load()).Apis(host);
        return apis;
      };
      const use = async (next: Config) => (await at(next))?.use(next);
      return {
        x402: { open: async (x402) => (await at(x402))?.open(x402) },
        operator: {
          loadApi: async () => ({
            methods: {},
            callDetails: async ({ jobId, state }) => ({
              waitReasons: state === "ready" ? reservation.waitReasons(jobId) : [],
            }),
          }),
        },
        async start() {
          await reservation.add(config);
          await use(config);
          await reservation.apply(config);
        },
        write: (next) => reservation.add(next),
        async reload(next) {
          await use(next);
          await reservation
            .apply(next)
            .catch((err: unknown) =>
              logger.error({ err }, "could not release jobs that APIs no longer do: reload again"),
            );
        },
        stop: async () => apis?.stop(),
      };
    };
  },
};
