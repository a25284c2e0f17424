import { openInMemory } from "../parts/postgres/memory/open-in-memory.ts";
import { openInTempFolder } from "../store/sqlite/open-in-temp-folder.ts";
import { describeStoreContract } from "../store/store-contract.ts";
import "../store/machine/intake.test.ts";
import "../store/machine/leases.test.ts";
import "../store/machine/payment-steps.test.ts";
import "../store/machine/reactions.test.ts";
import "../store/rules/payments.test.ts";
import "../parts/refunds/store/reactions.test.ts";
import "../parts/search/store/reactions.test.ts";

/* Tests that find removed guards of the store. */

export { collected, useExpect } from "./collected-tests.ts";

describeStoreContract("The SQLite store", openInTempFolder);
describeStoreContract("The Postgres store in memory", openInMemory);
