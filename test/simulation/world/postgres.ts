import { ReadOnlyServer } from "../../../src/parts/postgres/connection/database-errors.ts";
import type { WorkListeners } from "../../../src/parts/postgres/connection/work-channel.ts";
import type { StoreOptions } from "../../../src/store/create-store.ts";
import type { OperationOutcome } from "../../../src/store/group-commit.ts";
import { type Operation, runsLast } from "../../../src/store/operations.ts";
import type { Store } from "../../../src/store/store.ts";
import type { MemoryClient, Wire } from "../../parts/postgres/memory/connections.ts";
import { openMemoryStore } from "../../parts/postgres/memory/open-memory-store.ts";
import { MemoryPostgres } from "../../parts/postgres/memory/server.ts";
import { type Process, type Simulation, TROUBLE_MS } from "./simulation.ts";

/** Longest time that a message takes: long enough for batches to meet. */
const MESSAGE_MS = 25;
/** Time that news of work takes to the other gateways. */
const NEWS_MS = 20;
/** Longer than any time limit of the store: callers, probes and the search for an outcome give up. */
const MAX_HANG_MS = 25_000;
const MEAN_FAIL_OVER_MS = 40_000;
const MAX_DOWN_MS = 15_000;
/** Longest time for which nothing reaches the standby before it takes the primary's place. */
const MAX_CUT_OFF_MS = 8_000;

interface Batch {
  readonly process: Process;
  readonly operations: readonly Operation[];
  readonly outcomes: readonly unknown[];
  readonly now: number;
}

/**
 * A Postgres that gateways share, with the network before it: connections break before a COMMIT and after it, statements
 * hang, the server fails over, and news of work is lost.
 */
export class SimulatedPostgres {
  readonly #simulation: Simulation;
  readonly #server: MemoryPostgres;
  readonly #clients = new Map<MemoryClient, Process>();
  readonly #listeners = new Set<{ readonly process: Process; readonly heard: WorkListeners }>();
  readonly #batches = new Map<string, Batch>();
  #state: "up" | "down" | "read-only" = "up";
  /** Time at which the standby has the last commit. */
  #arrivesAt = 0;
  #isCutOff = false;

  constructor(simulation: Simulation, path: string) {
    this.#simulation = simulation;
    this.#server = new MemoryPostgres(path, false);
    this.#server.commits.onCommit = (id) => this.#committed(id);
    this.#server.commits.toStandby = (arrive, endWait) => this.#toStandby(arrive, endWait);
    this.#failOverLater();
  }

  /** Opens the store of a gateway. */
  open(process: Process, options: StoreOptions): Promise<Store> {
    return openMemoryStore(
      {
        server: this.#server,
        wireOf: (client) => this.#wire(process, client),
        onRan: (id, operations, { outcomes, startedAt: now }) =>
          void this.#batches.set(id, { process, operations, outcomes, now }),
        openChannel: (heard) => {
          const entry = { process, heard };
          this.#listeners.add(entry);
          return {
            announce: (news) => this.#tellOthers(process, news),
            close: async () => void this.#listeners.delete(entry),
          };
        },
      },
      options,
    );
  }

  /** Closes what a process that died had open: what it has sent still arrives. */
  left(process: Process): void {
    for (const [client, owner] of this.#clients)
      if (owner === process) this.#lose(client, "the process died");
  }

  close(): void {
    this.#server.close();
  }

  #wire(process: Process, client: () => MemoryClient): Wire {
    const run = this.#simulation;
    const arrivals = { server: 0, client: 0 };
    // Statements are sent in one stream: none arrives behind one that was lost.
    let isBroken = false;
    const later = (to: keyof typeof arrivals, owner: Process, ms: number, arrive: () => void) => {
      arrivals[to] = Math.max(arrivals[to], run.now + ms);
      run.at(arrivals[to] - run.now, owner, arrive);
    };
    return {
      connect: () =>
        new Promise((resolve, reject) => {
          run.at(run.delay("a connection opens", 0.2, 10), process, () => {
            if (this.#state === "down") reject(new Error("connect ECONNREFUSED"));
            else if (this.#state === "read-only") reject(new ReadOnlyServer());
            else {
              resolve();
              // The client is there once its connection is.
              run.at(0, run.world, () => this.#clients.set(client(), process));
            }
          });
        }),
      toServer: (statement, arrive) => {
        const hangs = statement === "commit" && run.fault("a COMMIT hangs", 0.004);
        const hangMs = hangs ? run.delay("hang", 1_000, MAX_HANG_MS) : 0;
        later("server", run.world, hangMs + run.delay("to Postgres", 0.01, MESSAGE_MS), () => {
          const isStatement = statement !== "terminate";
          if (isStatement && !isBroken && run.fault("a connection breaks before a statement", 0.0003)) {
            isBroken = true;
            this.#lose(client(), "before a statement");
          }
          if (isStatement && isBroken) return;
          arrive();
          if (statement === "commit" && run.fault("a connection breaks after a COMMIT", 0.006))
            this.#lose(client(), "after a COMMIT");
        });
      },
      toClient: (arrive) => later("client", process, run.delay("from Postgres", 0.01, MESSAGE_MS), arrive),
    };
  }

  #lose(client: MemoryClient, when: string): void {
    const process = this.#clients.get(client);
    this.#clients.delete(client);
    if (process === undefined) return;
    client.lose(new Error(`Connection terminated unexpectedly: ${when}`));
  }

  #failOverLater(): void {
    const run = this.#simulation;
    run.at(run.random("time to a fail-over") * 2 * MEAN_FAIL_OVER_MS, run.world, () => {
      if (run.now >= TROUBLE_MS) return;
      if (run.fault("Postgres fails over", 0.7)) this.#endPrimary();
      this.#failOverLater();
    });
  }

  /** Ends the primary, at once or after a time in which nothing reaches the standby. */
  #endPrimary(): void {
    const run = this.#simulation;
    if (this.#isCutOff) return;
    if (!run.fault("Postgres is cut off from its standby first", 0.7)) {
      this.#failOver();
      return;
    }
    this.#isCutOff = true;
    const cutOffMs = Math.min(run.delay("cut off", 500, MAX_CUT_OFF_MS), TROUBLE_MS - run.now);
    run.at(cutOffMs, run.world, () => this.#failOver());
  }

  /** Brings a commit to the standby. */
  #toStandby(arrive: () => void, endWait: () => void): void {
    const run = this.#simulation;
    if (this.#isCutOff) {
      if (run.fault("a COMMIT that waits for the standby is ended", 0.7))
        run.at(run.delay("waits for the standby", 1, MAX_CUT_OFF_MS / 4), run.world, endWait);
      return;
    }
    this.#arrivesAt = Math.max(this.#arrivesAt, run.now + run.delay("to the standby", 0.01, MESSAGE_MS));
    run.at(this.#arrivesAt - run.now, run.world, arrive);
  }

  /** Ends all connections. The server keeps what its standby had. */
  #failOver(): void {
    const run = this.#simulation;
    run.say("Postgres fails over");
    this.#isCutOff = false;
    this.#server.failOver();
    for (const [client] of [...this.#clients]) this.#lose(client, "fail-over");
    this.#state = "down";
    const soon = (ms: number) => Math.min(ms, TROUBLE_MS - run.now);
    run.at(soon(run.delay("down", 100, MAX_DOWN_MS)), run.world, () => {
      this.#state = "read-only";
      run.at(soon(run.delay("read-only", 10, 1_000)), run.world, () => {
        this.#state = "up";
        run.say("Postgres takes writes");
      });
    });
  }

  /** Tells the laws what a COMMIT has committed. */
  #committed(id: string): void {
    const batch = this.#batches.get(id);
    if (batch === undefined) return;
    const run = this.#simulation;
    const { process, operations, outcomes, now } = batch;
    this.#batches.delete(id);
    for (const isLast of [false, true])
      for (const [index, operation] of operations.entries()) {
        const outcome: OperationOutcome = { result: outcomes[index] };
        if (runsLast(operation) === isLast) run.onCommit({ ...operation, now }, outcome);
      }
    const names = operations.map(({ name }) => name).filter((name) => name !== "claim" && name !== "probe");
    if (names.length > 0) run.say(`${process.name} commits ${names.join(", ")}`);
  }

  #tellOthers(
    by: Process,
    { hasWork, endedCallIds }: { hasWork: boolean; endedCallIds: readonly number[] },
  ): void {
    const run = this.#simulation;
    for (const { process, heard } of this.#listeners) {
      if (process === by || !process.isAlive || run.fault("news of work is lost", 0.05)) continue;
      run.at(run.delay("news of work", 1, NEWS_MS), process, () => {
        if (hasWork) heard.onWork();
        if (endedCallIds.length > 0) heard.onEnded(endedCallIds);
      });
    }
  }
}
