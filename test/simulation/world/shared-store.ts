import type { SharedLeases } from "../../../src/store/contract/work-queue.ts";
import { type LeaseColumns, leaseStanding } from "../../../src/store/rules/leases.ts";
import { openConnection } from "../../../src/store/sqlite/connection.ts";
import { newSeenCommit } from "../../../src/store/sqlite/database-header.ts";
import { openDriver } from "../../../src/store/sqlite/driver.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Process, Simulation } from "./simulation.ts";
import { shareDatabase } from "./store-link.ts";

/** Time that news of work takes to the other gateways. */
const NEWS_MS = 20;

/**
 * A database for several gateways. It runs the operations of the SQLite store and answers as a Postgres does: over
 * connections that may be lost, with news of new work for the other gateways.
 */
export class SharedDatabase {
  readonly #simulation: Simulation;
  readonly #connection: ReturnType<typeof openConnection>;
  readonly #reader: ReturnType<typeof openDriver>;
  readonly #listeners = new Set<{ readonly process: Process; readonly listener: () => void }>();

  constructor(simulation: Simulation, path: string) {
    this.#simulation = simulation;
    this.#connection = openConnection(
      {
        role: "writer",
        path,
        watch: [],
        seenCommit: newSeenCommit(),
        isNew: false,
        lastCallId: 0,
        maxPending: 1_000,
        now: simulation.trueMs,
      },
      () => undefined,
    );
    this.#reader = openDriver(path);
    shareDatabase({ connection: this.#connection, onNewWork: (by) => this.#tellOthers(by) });
  }

  close(): void {
    shareDatabase(undefined);
    this.#connection.close();
    this.#reader.close();
  }

  /** Makes a gateway's store one that it shares. */
  share(store: Store, process: Process): Store {
    const run = this.#simulation;
    const select = this.#reader.prepare<LeaseColumns>(
      "SELECT state, visible_at, lease_token FROM job_calls WHERE call_id = ?",
    );
    const sharedLeases: SharedLeases = {
      look: (leases) =>
        new Promise((resolve) => {
          const look = () =>
            resolve(leases.map((lease) => leaseStanding(select.get([lease.callId]), lease, run.trueMs)));
          run.at(run.delay("a look at leases", 0.1, 5), process, look);
        }),
      // News may be lost.
      onEndedElsewhere: () => () => undefined,
    };
    const onWork = (listener: () => void) => {
      const entry = { process, listener };
      this.#listeners.add(entry);
      const stop = store.onWork(listener);
      return () => {
        stop();
        this.#listeners.delete(entry);
      };
    };
    return { ...store, isShared: true, sharedLeases, onWork };
  }

  #tellOthers(by: Process): void {
    const run = this.#simulation;
    for (const { process, listener } of this.#listeners) {
      if (!process.isAlive) continue;
      if (process !== by) run.at(run.delay("news of work", 1, NEWS_MS), process, listener);
    }
  }
}
