import { DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import type { Lookups } from "../../../../src/parts/postgres/lookups.ts";
import {
  BATCHES_IN_FLIGHT,
  PostgresDialect,
  type PostgresServer,
} from "../../../../src/parts/postgres/postgres-dialect.ts";
import type { SharedLeases } from "../../../../src/store/contract/work-queue.ts";
import { createStore, type StoreOptions } from "../../../../src/store/create-store.ts";
import { kindOf, OPERATION_NAMES, type Operation, type ReadName } from "../../../../src/store/operations.ts";
import { leaseStanding } from "../../../../src/store/rules/leases.ts";
import { openConnection } from "../../../../src/store/sqlite/connection.ts";
import type { Store } from "../../../../src/store/store.ts";
import { connectionsTo, type MemoryClient, type Wire } from "./connections.ts";
import type { MemoryPostgres } from "./server.ts";

/** Server in memory as one replica reaches it. */
export interface Replica extends Pick<PostgresServer, "onRan" | "openChannel"> {
  readonly server: MemoryPostgres;
  /** Database with the committed rows, which answers lookups. */
  readonly path: string;
  wireOf(client: () => MemoryClient): Wire;
  /** Runs a lookup, which takes its time or fails. */
  look<Result>(run: () => Result): Promise<Result>;
}

/** Opens the Postgres store on a server in memory. */
export async function openMemoryStore(replica: Replica, options: StoreOptions): Promise<Store> {
  const { server, path, wireOf, look, onRan, openChannel } = replica;
  const connections = connectionsTo(server, { writers: BATCHES_IN_FLIGHT, wireOf });
  const reader = openConnection({ role: "reader", path, checkpoints: undefined }, () => undefined);
  const now = () => options.clock?.() ?? Date.now();
  const lookUp = (name: ReadName, input: readonly unknown[]) =>
    look(() => {
      const [outcome] = reader.run([{ name, input, now: now() } as unknown as Operation & { now: number }]);
      if (outcome === undefined || !("result" in outcome))
        throw new Error(`${name} failed: ${String(outcome?.error)}`);
      return outcome.result;
    });
  const lookAtLeases: SharedLeases["look"] = (leases) =>
    look(() => {
      const calls = new Map(server.rows("job_calls").map((row) => [row.call_id, row]));
      return leases.map((lease) => leaseStanding(calls.get(lease.callId) as never, lease, now()));
    });
  const names = OPERATION_NAMES.filter((name) => kindOf(name).channel === "read");
  const lookups = Object.fromEntries(
    names.map((name) => [name, (...input: readonly unknown[]) => lookUp(name as ReadName, input)]),
  );
  const openLookups = () => ({ ...lookups, lookAtLeases }) as unknown as Lookups;
  const dialect = new PostgresDialect(
    { connections, timeouts: DEFAULT_TIMEOUTS, openLookups, openChannel, onRan },
    options,
  );
  await dialect.start();
  const store = createStore(dialect, options);
  const close = async () => {
    await store.close();
    reader.close();
  };
  return { ...store, close };
}
