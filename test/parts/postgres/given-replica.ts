import { afterEach, beforeEach } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { type Postgres, startPostgres } from "../../helpers/postgres.ts";
import { startBeforeAll } from "../../helpers/start-before-all.ts";
import { openReplica } from "./open-in-database.ts";

/** One replica on a new database for each test; all tests of a file share the server. */
export function givenReplica(): { readonly postgres: Postgres; readonly url: string; readonly store: Store } {
  let url: string;
  let store: Store;
  const postgres = startBeforeAll(startPostgres);
  beforeEach(async () => {
    url = await postgres.createDatabase();
    store = await openReplica(url);
  });
  afterEach(() => store.close());
  return {
    get postgres() {
      return postgres;
    },
    get url() {
      return url;
    },
    get store() {
      return store;
    },
  };
}
