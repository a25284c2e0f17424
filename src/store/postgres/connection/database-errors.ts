import { DatabaseError } from "pg";

/** Another transaction has written the same thing first: with a new look, the batch comes to another end. */
export class LostRace extends Error {
  override readonly name = "LostRace";
}

/** The server is a standby, or was the primary before a fail-over. */
export class ReadOnlyServer extends Error {
  override readonly name = "ReadOnlyServer";

  constructor() {
    super("this Postgres server can only be read from");
  }
}

/**
 * Codes of errors with which the server ends the connection, or after which it is no good: exceptions of the connection,
 * too many of them, shut-downs, failures of the system and of the server itself, time-outs of the session, a server that
 * can only be read from (appendix A of Postgres' manual). How severe it is, the server says in its own language.
 */
const ENDS_CONNECTION = /^(?:08|53300|57P|58|XX|25006|25P03|25P04)/;

/**
 * Whether the server itself has said that this failed, and the connection lives on: nothing of the transaction was
 * committed then. Of everything else, such as a connection that broke, only the database knows what came of it.
 */
export function isRefusal(error: unknown): boolean {
  return (
    error instanceof LostRace || (error instanceof DatabaseError && !ENDS_CONNECTION.test(error.code ?? "XX"))
  );
}

/** Whether it needs another server to be done. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof ReadOnlyServer || hasCode(error, /^25006$/);
}

/** Whether the same batch may well succeed when it is run again: it was in the way of another one. */
export function isCollision(error: unknown): boolean {
  return error instanceof LostRace || hasCode(error, /^40/);
}

/** Whether it is what was to be written that the database cannot take, not the database that does not work. */
export function isOperationsFault(error: unknown): boolean {
  // Data exceptions and integrity constraint violations: appendix A of Postgres' manual.
  return error instanceof LostRace || hasCode(error, /^2[23]/);
}

function hasCode(error: unknown, code: RegExp): boolean {
  return error instanceof DatabaseError && code.test(error.code ?? "");
}
