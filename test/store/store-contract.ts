import { describe } from "vitest";
import * as ofParts from "../stored-parts.ts";
import { describeAdoptions } from "./contract/adoptions.ts";
import { describeClosing } from "./contract/closing.ts";
import { describeDeadLetters } from "./contract/dead-letters.ts";
import { describeDeferredPayments } from "./contract/deferred-payments.ts";
import { givenStore, type OpenStoreUnderTest } from "./contract/given.ts";
import { describeIntake } from "./contract/intake.ts";
import { describeLeases } from "./contract/leases.ts";
import { describeLocks } from "./contract/locks.ts";
import { describeLookups } from "./contract/lookups.ts";
import { describeOffers } from "./contract/offers.ts";
import { describeOneTimeNonces } from "./contract/one-time-nonces.ts";
import { describeOperatorLists } from "./contract/operator-lists.ts";
import { describePayments } from "./contract/payments.ts";
import { describePruning } from "./contract/pruning.ts";
import { describePurchaseNames } from "./contract/purchase-names.ts";
import { describeRefusedPayments } from "./contract/refused-payments.ts";
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
    describeAdoptions(given);
    describeIntake(given);
    describePayments(given);
    describeDeferredPayments(given);
    describePurchaseNames(given);
    describeOneTimeNonces(given);
    describeLocks(given);
    describeLeases(given);
    describeRefusedPayments(given);
    describeWorkListeners(given);
    describeDeadLetters(given);
    describeOperatorLists(given);
    describeLookups(given);
    describeTotalsAndRevenue(given);
    describeOffers(given);
    describeUndecided(given);
    describeWatched(given);
    describePruning(given);
    describeSecrets(given);
    describeRepeatedDeliveries(given);
    describeClosing(given);
    for (const describeModule of Object.values(ofParts)) describeModule(given);
  });
}
