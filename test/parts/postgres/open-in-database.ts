import type { Clock } from "../../../src/core/clock.ts";
import { DEFAULT_TIMEOUTS } from "../../../src/parts/postgres/connection/connect.ts";
import { openPostgresStore, type PostgresStoreOptions } from "../../../src/parts/postgres/postgres-store.ts";
import type { BatchListener, Store } from "../../../src/store/store.ts";
import type { Postgres } from "../../helpers/postgres.ts";
import type { StoreUnderTest } from "../../store/contract/given.ts";
import { encodeTestCall } from "../../store/store-fixtures.ts";

/** Timeouts of a test that compares answers, where a slow machine makes no difference. */
export const PATIENT = {
  ...DEFAULT_TIMEOUTS,
  statementMs: 60_000,
  answerMs: 70_000,
  hangMs: 60_000,
  callerMs: 80_000,
};

/** A store that encodes a JobCall as its head and body. */
export function openReplica(url: string, options: Partial<PostgresStoreOptions> = {}): Promise<Store> {
  return openPostgresStore({
    url,
    poolSize: 5,
    maxPending: 1_000_000,
    encodeJobCall: encodeTestCall,
    ...options,
  });
}

/** Databases that have the tables and nothing else, by server: making the tables takes longer than most tests. */
const prepared = new WeakMap<object, Promise<string>>();

async function prepare(postgres: Pick<Postgres, "createDatabase">): Promise<string> {
  const url = await postgres.createDatabase();
  await (await openReplica(url, { timeouts: PATIENT })).close();
  return url;
}

/** A store in a new database. */
export async function openInDatabase(
  postgres: Pick<Postgres, "createDatabase">,
  options: { maxPending: number; clock: Clock; onBatch: BatchListener; listen?: boolean },
): Promise<StoreUnderTest> {
  const template = prepared.get(postgres) ?? prepare(postgres);
  prepared.set(postgres, template);
  const url = await postgres.createDatabase(await template);
  const patient = { ...options, timeouts: PATIENT };
  let store = await openReplica(url, patient);
  return {
    get store() {
      return store;
    },
    async reopen() {
      await store.close();
      store = await openReplica(url, patient);
      return store;
    },
    dispose: () => store.close(),
  };
}
