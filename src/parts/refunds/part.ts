import type { OperatorAddition } from "../../operator/methods.ts";
import type { Part } from "../../part.ts";
import { refundsTable } from "./config.ts";

/** Pays failed jobs back. Operators see and decide what is owed while `[x402.refunds]` is left out as well. */
export const part: Part = {
  table: refundsTable,
  async load(whole, loadMethods) {
    const { x402 } = whole;
    const config = refundsTable.in(whole);
    const sending = config && (await Promise.all([import("./refunds.ts"), loadMethods()]));
    return (host) => {
      const { store, logger, telemetry } = host;
      const operator: OperatorAddition = {
        async loadApi() {
          const { refundMethods } = await import("./operator.ts");
          return { methods: refundMethods({ store, logger, configuration: () => host.config }) };
        },
      };
      if (config === undefined || sending === undefined) return { operator };
      const [{ Refunds }, methods] = sending;
      const tokens = x402?.acceptedTokens ?? [];
      const refunds = new Refunds({ config, methods, tokens, store, logger, telemetry });
      return {
        operator,
        gauges: () => refunds.gauges(),
        start: () => refunds.start(),
        reload: (next) => refunds.use(next.x402?.acceptedTokens ?? []),
        stop: () => refunds.stop(),
      };
    };
  },
};
