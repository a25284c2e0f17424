import type { ClientBase } from "pg";
import type { PostgresTimeouts } from "./connect.ts";
import { ReadOnlyServer } from "./database-errors.ts";

/** Settings by name, which override the settings of the server, the database and the role. */
type Settings = Readonly<Record<string, string | number>>;

/**
 * Settings of sessions that read lists. They make the planner read each index in its order, and join row by row.
 * Otherwise the planner expects to read all rows, including the rows that a limit cuts off, and sorts or hashes tables.
 */
export const LIST_SETTINGS: Settings = {
  enable_bitmapscan: "off",
  enable_hashagg: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_sort: "off",
};

function settingsOf(timeouts: PostgresTimeouts): Settings {
  return {
    statement_timeout: timeouts.statementMs,
    lock_timeout: timeouts.lockMs,
    // Ends the transaction of a replica that vanished, and so releases its locks.
    idle_in_transaction_session_timeout: timeouts.statementMs,
    // The tables of a queue are empty at one moment and full at the next, which statistics do not follow.
    enable_seqscan: "off",
    jit: "off",
  };
}

/** Returns the statements that begin a transaction with all settings, for a server that does not keep the session. */
export function beginWithSettings(timeouts: PostgresTimeouts, more: Settings = {}): string {
  return ["BEGIN ISOLATION LEVEL READ COMMITTED", ...statementsOf("SET LOCAL", timeouts, more)].join("; ");
}

function statementsOf(verb: string, timeouts: PostgresTimeouts, more: Settings): string[] {
  return Object.entries({ ...settingsOf(timeouts), ...more }).map(
    ([name, value]) => `${verb} ${name} = ${value}`,
  );
}

/**
 * Prepares a connection that was just opened.
 * @throws Error when the server cannot be written to, or does not promise to keep what it has committed
 */
export async function prepareSession(
  client: ClientBase,
  timeouts: PostgresTimeouts,
  {
    settings = {},
    keepsSession,
  }: { readonly settings?: Settings | undefined; readonly keepsSession: boolean },
): Promise<void> {
  const isolation = "SET default_transaction_isolation = 'read committed'";
  await Promise.all([
    keepsSession && client.query([isolation, ...statementsOf("SET", timeouts, settings)].join("; ")),
    requirePrimary(client),
  ]);
}

/** @throws Error when the server cannot be written to, or does not promise to keep what it has committed */
export async function requirePrimary(client: ClientBase): Promise<void> {
  const result = await client.query<Record<"synchronous_commit" | "fsync" | "read_only", string>>(
    `SELECT current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
            current_setting('transaction_read_only') AS read_only`,
  );
  const { read_only, ...durability } = result.rows[0] ?? {};
  for (const [name, value] of Object.entries(durability))
    if (value === "off") throw new Error(`Postgres has ${name} off, and so may lose what it has committed`);
  if (read_only !== "off") throw new ReadOnlyServer();
}
