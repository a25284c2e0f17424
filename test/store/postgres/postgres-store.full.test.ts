import { afterAll, beforeAll } from "vitest";
import { type Postgres, startPostgres } from "../../helpers/postgres.ts";
import { describeStoreContract } from "../store-contract.ts";
import { openInDatabase } from "./open-in-database.ts";

let postgres: Postgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

describeStoreContract("The Postgres store", (options) => openInDatabase(postgres, options));
