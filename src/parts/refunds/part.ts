import type { Logger } from "pino";
import type { OperatorAddition } from "../../operator/methods.ts";
import type { Part } from "../../part.ts";
import { refundsTable } from "./config.ts";
import { refundGauges } from "./gauges.ts";
import type { RefundLedger } from "./store/ledger.ts";
import { REFUNDS } from "./store/module.ts";

/**
 * Pays failed jobs back. Operators see owed refunds and decide about them even if the configuration lacks
 * `[x402.refunds]`.
 */
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
          const { refundOperation } = await import("./operator.ts");
          return refundOperation({ ledger: store.of(REFUNDS), logger, configuration: () => host.config });
        },
      };
      if (config === undefined || sending === undefined) {
        const warn = async () => void warnOfWaiting(store.of(REFUNDS), logger).catch(() => undefined);
        return { operator, ownGauges: refundGauges(() => []), start: warn, reload: warn };
      }
      const [{ Refunds }, methods] = sending;
      const tokens = x402?.acceptedTokens ?? [];
      const refunds = new Refunds({ config, methods, tokens, store, logger, telemetry });
      return {
        operator,
        gauges: () => refunds.gauges(),
        holdings: { pays: "refunds", read: () => refunds.holdings() },
        ownGauges: refundGauges(() => refunds.shortTokens),
        start: () => refunds.start(),
        reload: (next) => refunds.use(next.x402?.acceptedTokens ?? []),
        stop: () => refunds.stop(),
      };
    };
  },

  async checkPeers(whole, loadMethods) {
    const config = refundsTable.in(whole);
    if (whole.x402 === undefined || config === undefined) return { notes: [], problems: [] };
    const [{ checkAccounts }, methods] = await Promise.all([import("./online-check.ts"), loadMethods()]);
    return checkAccounts(config, { methods, tokens: whole.x402.acceptedTokens, timeoutMs: MAX_TIMEOUT_MS });
  },
};

/** Longest time to wait for one answer of an RPC that is checked. */
const MAX_TIMEOUT_MS = 10_000;

/** Warns of refunds that are owed and not sent, because the process runs without `[x402.refunds]`. */
async function warnOfWaiting(ledger: Pick<RefundLedger, "countOpenRefunds">, logger: Logger): Promise<void> {
  const refunds = await ledger.countOpenRefunds();
  if (refunds > 0) logger.warn({ refunds }, "refunds wait: [x402.refunds] was missing when jobgate started");
}
