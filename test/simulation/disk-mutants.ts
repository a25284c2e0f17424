import type { WorldMutant } from "./mutant.ts";

const OPEN = "store/sqlite/open-database.ts";
const CONNECTION = "store/sqlite/connection.ts";
const TRANSACTION = "store/sqlite/transaction.ts";

/** Probability of a sync's failure in worlds in which a disk fails again and again. */
export const OFTEN = 0.08;

/** Guards that are missed in some world whose disk fails. */
export const DISK_MUTANTS: readonly WorldMutant[] = [
  {
    name: "commits are left to the system's cache",
    seed: 139,
    ...{ file: OPEN, from: '{ name: "synchronous", value: 2 }', to: '{ name: "synchronous", value: 0 }' },
  },
  {
    name: "only checkpoints are synced",
    seed: 55,
    ...{ file: OPEN, from: '{ name: "synchronous", value: 2 }', to: '{ name: "synchronous", value: 1 }' },
  },
  {
    name: "checkpoints are not synced",
    seed: 112,
    file: CONNECTION,
    ...{
      from: "const readVersion = database",
      to: 'database.exec("PRAGMA synchronous = OFF");\n  const readVersion = database',
    },
  },
  {
    name: "the database has a journal in memory",
    seed: 14,
    ...{ file: OPEN, from: 'value: "wal"', to: 'value: "memory"' },
  },
  {
    name: "a commit that failed is answered as done",
    seed: 18,
    file: TRANSACTION,
    ...{
      from: "isRunning = false;\n    commit(database);",
      to: "isRunning = false;\n    try { commit(database); } catch { rollBack(database); }",
    },
  },
  {
    name: "a commit is answered before it is made",
    seed: 15,
    file: TRANSACTION,
    ...{
      from: "isRunning = false;\n    commit(database);",
      to: "isRunning = false;\n    setTimeout(() => { try { commit(database); } catch {} }, 1);",
    },
  },
  {
    name: "a start trusts the log that it finds",
    seed: 14,
    syncFailure: OFTEN,
    ...{ file: CONNECTION, from: "makeLogDurable(role.path);", to: "" },
  },
];
