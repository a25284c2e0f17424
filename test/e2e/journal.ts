import type { PaymentRecord } from "../../src/core/payment.ts";
import type { CallState } from "../../src/store/contract/call-lookup.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { lookupOperations } from "../../src/store/sqlite/operations/lookups.ts";
import { totalsOperations } from "../../src/store/sqlite/operations/totals.ts";
import type { StoreTotals } from "../../src/store/store.ts";
import type { SignedAuthorization } from "../helpers/usdc.ts";

/** The payment journal, read from the store's file by a connection of its own. */
export interface Journal {
  totals(): StoreTotals;
  payments(): PaymentRecord[];
  callState(callId: number): CallState["state"] | undefined;
  paymentOf(signed: SignedAuthorization): PaymentRecord | undefined;
  close(): void;
}

export function openJournal(path: string): Journal {
  const database = openDriver(path);
  database.exec("PRAGMA query_only = ON");
  const lookups = lookupOperations(database);
  const totals = totalsOperations(database);
  const payments = () => lookups.listPayments({ limit: 10_000 });
  /** One snapshot, as the store itself reads: else a JobCall acked between two queries counts twice. */
  function readTotals(): StoreTotals {
    database.exec("BEGIN");
    try {
      return totals.totals(undefined, Date.now());
    } finally {
      database.exec("COMMIT");
    }
  }
  return {
    totals: readTotals,
    payments,
    callState: (callId) => lookups.findCall({ callId }, Date.now())?.state,
    paymentOf: ({ authorization }) =>
      payments().find(({ key }) => key.nonce === authorization.nonce.toLowerCase()),
    close: () => database.close(),
  };
}
