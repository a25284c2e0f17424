import { HOUR_MS } from "../rules/payments.ts";
import type { Reactions, Revenue } from "./changes.ts";

/** Sums of settled amounts by hour. */
export const REVENUE: Reactions = {
  paymentDecided({ payment }) {
    const { state, updated_at, network, asset, symbol, amount } = payment;
    if (state !== "settled") return [];
    const hour = Math.floor(updated_at / HOUR_MS);
    return [{ kind: "revenue", revenue: { hour, network, asset, symbol, amount } }];
  },
};

/** Adds up revenue by hour and token. */
export function sumsByHour(
  revenue: readonly Revenue[],
): (Omit<Revenue, "amount"> & { readonly amount: bigint; readonly payments: number })[] {
  const sums = new Map<string, ReturnType<typeof sumsByHour>[number]>();
  for (const one of revenue) {
    const key = `${one.hour} ${one.network} ${one.asset} ${one.symbol}`;
    const { amount, payments } = sums.get(key) ?? { amount: 0n, payments: 0 };
    sums.set(key, { ...one, amount: amount + BigInt(one.amount), payments: payments + 1 });
  }
  return [...sums.values()];
}
