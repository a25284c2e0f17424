import type { OwnGauge } from "../../part.ts";
import type { StoreTotals } from "../../store/store.ts";
import type { SettledSum } from "./receivers.ts";
import { type ChannelSum, channelSums } from "./store/totals.ts";

/** Returns the gauges of payment channels. */
export function channelGauges(
  settled: () => readonly (SettledSum & { readonly network: string })[],
): OwnGauge[] {
  return [
    {
      name: "jobgate_channels",
      help: "Payment channels, by token and state.",
      labels: ["state", "network", "asset", "symbol"],
      read: (totals) =>
        sumsOf(totals).flatMap((sum) =>
          sum.channels.map(([state, channels]) => [channels, { state, ...tokenOf(sum) }] as const),
        ),
    },
    {
      name: "jobgate_channels_amount",
      help: "Token units in payment channels, by token: deposited, charged, final, claimed, lost, and final but neither claimed nor lost.",
      labels: ["sum", "network", "asset", "symbol"],
      read: (totals) =>
        sumsOf(totals).flatMap((sums) =>
          SUMS.map((sum) => [Number(sums[sum]), { sum, ...tokenOf(sums) }] as const),
        ),
    },
    {
      name: "jobgate_channels_oldest_unclaimed_age_seconds",
      help: "Age of the oldest final charges that are not claimed, by token; 0 if there are none.",
      labels: ["network", "asset", "symbol"],
      read: (totals, now) =>
        sumsOf(totals).map(
          (sum) => [Math.max(0, now - (sum.oldestDueAt ?? now)) / 1_000, tokenOf(sum)] as const,
        ),
    },
    {
      name: "jobgate_channels_settled_amount",
      help: "Token units that have moved from payment channels to the seller, by token; only from the replica that claims.",
      labels: ["network", "asset", "pay_to"],
      read: () =>
        settled().map(({ network, asset, receiver, settled: units }) => [
          Number(units),
          { network, asset, pay_to: receiver },
        ]),
    },
  ];
}

const SUMS = ["deposited", "charged", "final", "claimed", "lost", "unclaimed"] as const;

function sumsOf(totals: StoreTotals | undefined): readonly ChannelSum[] {
  return totals === undefined ? [] : channelSums(totals);
}

function tokenOf({ network, asset, symbol }: Pick<ChannelSum, "network" | "asset" | "symbol">) {
  return { network, asset, symbol };
}
