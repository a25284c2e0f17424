import type { PaymentRecord } from "../../src/core/payment.ts";
import type { CallState } from "../../src/store/contract/call-lookup.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { readOperations } from "../../src/store/sqlite/operations/index.ts";
import type { StoreTotals } from "../../src/store/store.ts";
import type { SignedAuthorization } from "../helpers/usdc.ts";

/** The payment journal, read beside jobgate over a separate connection. */
export interface Journal {
  totals(): Promise<StoreTotals>;
  payments(): Promise<PaymentRecord[]>;
  callState(callId: number): Promise<CallState["state"] | undefined>;
  paymentOf(signed: SignedAuthorization): Promise<PaymentRecord | undefined>;
  close(): Promise<void>;
}

/** Selects the payment that an authorization made. */
export const isOf =
  ({ authorization }: SignedAuthorization) =>
  ({ key }: PaymentRecord): boolean =>
    key.nonce === authorization.nonce.toLowerCase();

export function openJournal(path: string): Journal {
  const database = openDriver(path);
  database.exec("PRAGMA query_only = ON");
  const lookups = readOperations(database);
  function payments(): PaymentRecord[] {
    const found: PaymentRecord[] = [];
    for (let page: readonly PaymentRecord[] = []; ; found.push(...page)) {
      const before = page.at(-1)?.callId;
      page = lookups.listPayments(Date.now(), {
        limit: 10_000,
        ...(before === undefined ? {} : { before }),
      }).items;
      if (page.length === 0) return found;
    }
  }
  /** One snapshot, as the store itself reads: else a JobCall acked between two queries counts twice. */
  function readTotals(): StoreTotals {
    database.exec("BEGIN");
    try {
      return lookups.totals(Date.now());
    } finally {
      database.exec("COMMIT");
    }
  }
  return {
    totals: async () => readTotals(),
    payments: async () => payments(),
    callState: async (callId) => lookups.findCall(Date.now(), callId)?.state,
    paymentOf: async (signed) => payments().find(isOf(signed)),
    close: async () => database.close(),
  };
}
