/* Takes the place of `src/store/sqlite/worker-link.ts`: the worker's code, in virtual time. */
import { UnknownOutcomeError } from "../../../src/core/errors.ts";
import type { Claimed } from "../../../src/store/contract/work-queue.ts";
import type { OperationOutcome } from "../../../src/store/group-commit.ts";
import { makesWork, runsLast } from "../../../src/store/operations.ts";
import {
  decodeBatch,
  decodeOutcomes,
  encodeBatch,
  encodeOutcomes,
} from "../../../src/store/sqlite/batch-codec.ts";
import {
  type Connection,
  type ConnectionRole,
  openConnection,
} from "../../../src/store/sqlite/connection.ts";
import { type Counts, countsOf } from "../../../src/store/sqlite/serve-database.ts";
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import { DISK } from "./disk.ts";
import { type Process, simulation } from "./simulation.ts";

/** A database that gateways share, as they share a Postgres. */
let shared: { readonly connection: Connection; readonly onNewWork: (by: Process) => void } | undefined;

/** Lets every writer that opens from now on use this connection. */
export function shareDatabase(database: typeof shared): void {
  shared = database;
}

/** Longer than a lease. */
const MAX_STANDSTILL_MS = 12_000;

const connections = new Map<Process, Set<Connection>>();

/** Closes what a process that died had open. What it has committed stays. */
export function closeConnectionsOf(process: Process): void {
  for (const connection of connections.get(process) ?? []) connection.close();
  connections.delete(process);
}

function atServer(operation: TimedOperation): TimedOperation {
  return { ...operation, now: simulation().trueMs, clockStepMs: 0 };
}

export class WorkerLink {
  #connection: Connection | undefined;
  #isWriter = false;
  #isShared = false;

  async open(role: ConnectionRole): Promise<Counts> {
    const { current } = simulation();
    this.#isWriter = role.role === "writer";
    if (this.#isWriter && shared !== undefined) {
      this.#isShared = true;
      this.#connection = shared.connection;
      return countsOf(shared.connection);
    }
    // Checkpoints change nothing that a query sees, but what a disk has.
    const opened =
      role.role === "writer" || role.path.startsWith(DISK) ? role : { ...role, checkpoints: undefined };
    const connection = openConnection(opened, (reason) =>
      simulation().break(`the store was lost: ${reason}`),
    );
    this.#connection = connection;
    const others = connections.get(current) ?? new Set();
    connections.set(current, others.add(connection));
    return countsOf(connection);
  }

  run(operations: readonly TimedOperation[]): Promise<Counts & { outcomes: OperationOutcome[] }> {
    const run = simulation();
    const { current } = run;
    const kind = this.#isWriter ? "write" : "read";
    // What was sent to a server arrives even if the sender dies.
    const worker = this.#isShared ? run.world : current;
    return new Promise((resolve, reject) => {
      const fail = (error: Error) =>
        run.at(run.delay(`${kind} fails`, 0.05, 4), current, () => reject(error));
      run.at(run.delay(`${kind} begins`, 0.05, 4), worker, () => {
        const connection = this.#connection;
        if (connection === undefined) return fail(new Error("the database is not open"));
        if (this.#isWriter && run.fault("the store refuses a batch", 0.004)) {
          return fail(new Error("disk I/O error"));
        }
        // A shared database has a clock of its own.
        const timed = this.#isShared ? operations.map(atServer) : operations;
        const batch = decodeBatch(encodeBatch(timed));
        let outcomes: OperationOutcome[];
        try {
          outcomes = decodeOutcomes(operations, encodeOutcomes(batch, connection.run(batch)));
        } catch (error) {
          run.say(`${current.name} cannot ${kind}: ${(error as Error).message}`);
          if (this.#isWriter) for (const operation of timed) run.onCommit(operation, undefined);
          return fail(error as Error);
        }
        for (const isLast of [false, true])
          for (const [i, operation] of timed.entries())
            if (runsLast(operation) === isLast) run.onCommit(operation, outcomes[i]);
        if (bringsWork(operations, outcomes) && run.fault("a gateway stands still while it claims", 0.02))
          current.stalledUntil = run.now + run.delay("stands still", 100, MAX_STANDSTILL_MS);
        const counts = countsOf(connection);
        const names = operations.map(({ name }) => name).filter((name) => name !== "claim");
        if (this.#isWriter && names.length > 0) run.say(`${current.name} commits ${names.join(", ")}`);
        if (operations.some(({ name, input }) => makesWork(name, input))) shared?.onNewWork(current);
        if (this.#isShared && run.fault("the store commits a batch and does not say so", 0.003)) {
          return fail(new UnknownOutcomeError("the connection was lost during a commit"));
        }
        return run.at(run.delay(`${kind} ends`, 0.05, 4), current, () => resolve({ outcomes, ...counts }));
      });
    });
  }

  async close(): Promise<void> {
    if (!this.#isShared) this.#connection?.close();
    connections.get(simulation().current)?.delete(this.#connection as Connection);
    this.#connection = undefined;
  }
}

/** Checks whether a claim among the operations leases a JobCall. */
function bringsWork(operations: readonly TimedOperation[], outcomes: readonly OperationOutcome[]): boolean {
  return operations.some(({ name }, i) => {
    const outcome = outcomes[i];
    const claimed = name === "claim" && outcome !== undefined && "result" in outcome && outcome.result;
    return claimed !== false && (claimed as Claimed).calls.length > 0;
  });
}
