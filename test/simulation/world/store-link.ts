/* Takes the place of `src/store/sqlite/worker-link.ts`: the worker's code, in virtual time. */
import type { OperationOutcome } from "../../../src/store/group-commit.ts";
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
import type { TimedOperation } from "../../../src/store/sqlite/transaction.ts";
import { type Process, simulation } from "./simulation.ts";

const connections = new Map<Process, Set<Connection>>();

/** Closes what a process that died had open. What it has committed stays. */
export function closeConnectionsOf(process: Process): void {
  for (const connection of connections.get(process) ?? []) connection.close();
  connections.delete(process);
}

export class WorkerLink {
  #connection: Connection | undefined;
  #isWriter = false;

  async open(role: ConnectionRole): Promise<number> {
    const { current } = simulation();
    this.#isWriter = role.role === "writer";
    // Checkpoints change nothing that a query sees.
    const opened = role.role === "writer" ? role : { ...role, makesCheckpoints: false };
    const connection = openConnection(opened, (reason) =>
      simulation().break(`the store was lost: ${reason}`),
    );
    this.#connection = connection;
    const others = connections.get(current) ?? new Set();
    connections.set(current, others.add(connection));
    return connection.pending;
  }

  run(operations: readonly TimedOperation[]): Promise<{ outcomes: OperationOutcome[]; pending: number }> {
    const run = simulation();
    const { current } = run;
    const kind = this.#isWriter ? "write" : "read";
    return new Promise((resolve, reject) => {
      run.at(run.delay(`${kind} begins`, 0.05, 4), current, () => {
        const connection = this.#connection;
        if (connection === undefined) return reject(new Error("the database is not open"));
        if (this.#isWriter && run.fault("the store refuses a batch", 0.004)) {
          return reject(new Error("disk I/O error"));
        }
        const batch = decodeBatch(encodeBatch(operations));
        const outcomes = decodeOutcomes(operations, encodeOutcomes(batch, connection.run(batch)));
        const { pending } = connection;
        const names = operations.map(({ name }) => name).filter((name) => name !== "claim");
        if (this.#isWriter && names.length > 0) run.say(`${current.name} commits ${names.join(", ")}`);
        run.at(run.delay(`${kind} ends`, 0.05, 4), current, () => resolve({ outcomes, pending }));
      });
    });
  }

  async close(): Promise<void> {
    this.#connection?.close();
    connections.get(simulation().current)?.delete(this.#connection as Connection);
    this.#connection = undefined;
  }
}
