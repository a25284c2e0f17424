import type { PaymentRecord } from "../../src/core/payment.ts";
import { openStore } from "../../src/open-store.ts";
import { startLog } from "../helpers/log.ts";
import { isOf, type Journal } from "./journal.ts";

/** The payment journal of a Postgres store. */
export async function openPostgresJournal(url: string): Promise<Journal> {
  const store = await openStore({ url, maxPending: 1_000_000 }, startLog("error").logger);
  async function payments(): Promise<PaymentRecord[]> {
    return [...(await store.listPayments({ limit: 10_000 })).items];
  }
  return {
    totals: store.totals,
    payments,
    callState: async (callId) => (await store.findCall(callId))?.state,
    paymentOf: async (signed) => (await payments()).find(isOf(signed)),
    close: store.close,
  };
}
