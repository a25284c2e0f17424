import { makeRunnerClient } from "../helpers/runner-client.ts";
import { paidCall, paymentIntent } from "../store/store-fixtures.ts";
import { type DeliveryOptions, startDelivery } from "./harness.ts";

export const CEILING = "1000";

export const units = (value: string) => ({ amount: { case: "units", value } }) as const;
export const share = (value: number) => ({ amount: { case: "basisPoints", value } }) as const;

/** Starts a runner server with two JobCalls that are metered. */
export async function startMetered(options: DeliveryOptions = {}) {
  const { store, accept, address, connect } = await startDelivery(options);
  const payments = [1, 2].map((number) =>
    paymentIntent(number, {
      amount: CEILING,
      charge: "used",
      validBefore: Math.ceil(Date.now() / 1000) + 3_600,
    }),
  );
  for (const payment of payments) await store.beginPayment(payment, paidCall());
  const client = makeRunnerClient({ address });
  return {
    connect,
    accept,
    client,
    charges: async () => Promise.all(payments.map(({ key }) => store.findPayment(key))),
  };
}

/** Charges that are refused, and why. */
export const INVALID_CHARGES = [
  ["above the ceiling", units("1001"), "the charge is 1001; expected at most the ceiling, 1000"],
  ["above the whole", share(10_001), "the charge is 10001 basis points; expected at most 10000"],
  ["of no number", units("1.5"), "charge.units is not a whole number"],
  ["below nothing", units("-1"), "charge.units is not a whole number"],
  ["of nothing at all", {}, "set units or basis_points"],
] as const;
