import { describe } from "vitest";
import { describeCallerNonces } from "./contract/caller-nonces.ts";
import { describeClosing } from "./contract/closing.ts";
import { describeDeadLetters } from "./contract/dead-letters.ts";
import { givenStore, type OpenStoreUnderTest } from "./contract/given.ts";
import { describeIntake } from "./contract/intake.ts";
import { describeLeases } from "./contract/leases.ts";
import { describeLookups } from "./contract/lookups.ts";
import { describeOffersAndQuotes } from "./contract/offers-and-quotes.ts";
import { describePayments } from "./contract/payments.ts";
import { describeReceipts } from "./contract/receipts.ts";
import { describeRepeatedDeliveries } from "./contract/repeated-deliveries.ts";
import { describeSecrets } from "./contract/secrets.ts";
import { describeTotalsAndRevenue } from "./contract/totals-and-revenue.ts";
import { describeUndecided } from "./contract/undecided.ts";
import { describeWatched } from "./contract/watched.ts";
import { describeWorkListeners } from "./contract/work-listeners.ts";

/** Contract tests of store.ts for every implementation. */
export function describeStoreContract(name: string, open: OpenStoreUnderTest): void {
  describe(name, () => {
    const given = givenStore(open);
    describeIntake(given);
    describePayments(given);
    describeCallerNonces(given);
    describeLeases(given);
    describeWorkListeners(given);
    describeDeadLetters(given);
    describeLookups(given);
    describeTotalsAndRevenue(given);
    describeOffersAndQuotes(given);
    describeReceipts(given);
    describeUndecided(given);
    describeWatched(given);
    describeSecrets(given);
    describeRepeatedDeliveries(given);
    describeClosing(given);
  });
}
