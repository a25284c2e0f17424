import type { StoreTotals } from "../store.ts";

/** Whether each settled payment has exactly one JobCall, as it must at any time. */
export function isBalanced({ payments, paidCalls }: Pick<StoreTotals, "payments" | "paidCalls">): boolean {
  const { ready, leased, done, dead } = paidCalls;
  return payments.settled === ready + leased + done + dead;
}
