import { describe } from "vitest";
import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { givenStore, type OpenStoreUnderTest } from "../../store/contract/given.ts";
import { describeManyRefusedPayments } from "../../store/contract/refused-payments.ts";
import { describeStoreContract } from "../../store/store-contract.ts";
import { openInDatabase } from "./open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

const open: OpenStoreUnderTest = (options) => openInDatabase(postgres, options);

describeStoreContract("The Postgres store", open);
describe("The Postgres store with many rows", () => describeManyRefusedPayments(givenStore(open)));
