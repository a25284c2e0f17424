import { startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { describeStoreContract } from "../../store/store-contract.ts";
import { openInDatabase } from "./open-in-database.ts";

const postgres = startBeforeAll(startPostgres);

describeStoreContract("The Postgres store", (options) => openInDatabase(postgres, options));
