import { DatabaseError } from "pg";

/** Another transaction wrote the same row first. When the batch runs again, it sees that row and decides otherwise. */
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

/** No server of the URL accepts writes. */
export class NoPrimary extends Error {
  override readonly name = "NoPrimary";
  readonly errors: readonly unknown[];

  /** @param errors of the hosts, in their order */
  constructor(hosts: readonly string[], errors: readonly unknown[]) {
    const reasons = hosts.map((host, index) => `${host}: ${reasonOf(errors[index])}`);
    super(`no Postgres server takes writes (${reasons.join("; ")})`);
    this.errors = errors;
  }
}

function reasonOf(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  return message || String(code);
}

/**
 * Codes of errors that end the connection or make it unusable: connection exceptions, too many connections, shut-downs,
 * system and internal errors, session time-outs, a read-only server (appendix A of Postgres' manual). The severity field
 * is of no use, because the server localizes it.
 */
const ENDS_CONNECTION = /^(?:08|53300|57P|58|XX|25006|25P03|25P04)/;

/**
 * Checks that the server itself refused, and that the connection still works. Nothing of the transaction was committed
 * then. After any other error, for example a broken connection, only the database knows the outcome.
 */
export function isRefusal(error: unknown): boolean {
  return (
    error instanceof LostRace || (error instanceof DatabaseError && !ENDS_CONNECTION.test(error.code ?? "XX"))
  );
}

/** Checks whether the operation needs another server. */
export function isReadOnly(error: unknown): boolean {
  return error instanceof ReadOnlyServer || hasCode(error, /^25006$/);
}

/** Checks whether the batch collided with another batch, and so may succeed when it is run again. */
export function isCollision(error: unknown): boolean {
  return error instanceof LostRace || hasCode(error, /^40/);
}

/** Checks whether the values of an operation are at fault, not the database. */
export function isOperationsFault(error: unknown): boolean {
  // Data exceptions and integrity constraint violations: appendix A of Postgres' manual.
  return error instanceof LostRace || hasCode(error, /^2[23]/);
}

/** Network errors of a server, or of the name service, that may be available a moment later. */
const NOT_REACHABLE = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
  ...["ENOTFOUND", "EAI_AGAIN"],
]);

/** Checks whether the server is not there yet: unreachable, starting up, stopping, or out of connections. */
export function isNotReady(error: unknown): boolean {
  // A standby may be promoted.
  if (error instanceof NoPrimary) return error.errors.every((each) => isNotReady(each) || isReadOnly(each));
  if (error instanceof DatabaseError) return hasCode(error, /^(?:57P0[123]|53300|08)/);
  const { code = "", syscall, message = "" } = error as NodeJS.ErrnoException;
  // A Unix socket is not there before its server is.
  if (code === "ENOENT") return syscall === "connect";
  return NOT_REACHABLE.has(code) || /^(?:Connection terminated|timeout e)/.test(message);
}

function hasCode(error: unknown, code: RegExp): boolean {
  return error instanceof DatabaseError && code.test(error.code ?? "");
}
