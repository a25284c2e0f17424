import type { Logger } from "pino";
import type { OperatorAddition } from "../../operator/methods.ts";
import type { Host, Part } from "../../part.ts";
import type { Channels } from "./channels.ts";
import { channelsTable } from "./config.ts";
import { channelGauges } from "./gauges.ts";
import { CHANNELS } from "./store/module.ts";

/** Payments from channels: x402's scheme `batch-settlement`. Operators see channels even without `[x402.channels]`. */
export const part: Part = {
  table: channelsTable,
  async checkPeers(whole, _loadMethods, inspect) {
    const config = channelsTable.in(whole);
    if (config === undefined) return { problems: [], notes: [] };
    const { missingAuthorizers } = await import("./missing-authorizers.ts");
    return { problems: await missingAuthorizers(config, inspect), notes: [] };
  },
  method: async () => (await import("./method.ts")).CHANNELS,
  async load(whole) {
    const config = channelsTable.in(whole);
    const { x402 } = whole;
    if (config === undefined || x402 === undefined)
      return (host) => ({
        operator: operatorOf(host, undefined),
        ownGauges: channelGauges(() => []),
        start: () => warnOfWaiting(host),
      });
    const { Channels } = await import("./channels.ts");
    return (host) => {
      const { store, logger, telemetry } = host;
      const own = () =>
        host.additions("sources").find(({ localFacilitator }) => localFacilitator)?.localFacilitator;
      const channels = new Channels({ config, x402, own, store, logger, telemetry });
      return {
        operator: operatorOf(host, channels),
        ownGauges: channelGauges(() => channels.settled),
        x402: { open: () => channels.addition },
        start: () => channels.start(),
        reload: (next) => channels.use(next.x402?.acceptedTokens ?? []),
        stop: () => channels.stop(),
      };
    };
  },
};

function operatorOf(host: Host, channels: Channels | undefined): OperatorAddition {
  return {
    async loadApi() {
      const { channelOperation } = await import("./operator.ts");
      return channelOperation({
        ledger: host.store.of(CHANNELS),
        networkOf: (row) => channels?.networkOf(row),
        isConfigured: channels !== undefined,
        configuration: () => host.config,
        logger: host.logger,
      });
    },
  };
}

/** Logs that channels wait to be claimed or paid back while the process runs without `[x402.channels]`. */
async function warnOfWaiting({ store, logger }: { readonly store: Host["store"]; readonly logger: Logger }) {
  const channels = await store
    .of(CHANNELS)
    .countOwedChannels()
    .catch(() => 0);
  if (channels > 0)
    logger.error({ channels }, "channels wait to be claimed or paid back: [x402.channels] is missing");
}
