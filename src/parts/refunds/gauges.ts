import type { OwnGauge } from "../../part.ts";
import type { RefundSum } from "./store/ledger.ts";
import { refundSums } from "./store/queries.ts";

/** A token that the refund account is short of. */
export interface ShortToken {
  readonly network: string;
  readonly asset: string;
}

/** Returns the gauges of refunds. */
export function refundGauges(shortTokens: () => readonly ShortToken[]): OwnGauge[] {
  return [
    ofSums("jobgate_refunds", "Refunds, by token and state.", ({ refunds }) => refunds),
    ofSums("jobgate_refunds_amount", "Token units of refunds, by token and state.", ({ amount }) =>
      Number(amount),
    ),
    ofSums(
      "jobgate_refunds_oldest_age_seconds",
      "Age of the oldest refund, by token and state.",
      ({ oldestAt }, now) => Math.max(0, now - oldestAt) / 1000,
    ),
    {
      name: "jobgate_refund_account_short",
      help: "1 while refunds wait because the refund account is short of the token.",
      labels: ["network", "asset"],
      read: () => shortTokens().map(({ network, asset }) => [1, { network, asset }]),
    },
  ];
}

function ofSums(name: string, help: string, value: (sum: RefundSum, now: number) => number): OwnGauge {
  return {
    name,
    help,
    labels: ["state", "network", "asset", "symbol"],
    read: (totals, now) =>
      (totals === undefined ? [] : refundSums(totals)).map((sum) => {
        const { state, network, asset, symbol } = sum;
        return [value(sum, now), { state, network, asset, symbol }];
      }),
  };
}
