import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import pg, { type ClientBase, type ClientConfig } from "pg";
import { ReadOnlyServer } from "./database-errors.ts";

/** How to reach the database. */
export interface PostgresAddress {
  /** `postgres://user:password@host:port/database`. Secret: it may hold a password. */
  readonly url: string;
  /** Absent: the URL's `sslmode`; without one `disable` on loopback and Unix sockets, else `verify-full`. */
  readonly tls?: PostgresTls | undefined;
  /** Path of a PEM file with the authorities to trust in place of the well-known ones. */
  readonly ca?: string | undefined;
}

/**
 * - `disable`: in the clear.
 * - `require`: encrypted, but whoever answers is believed.
 * - `verify-full`: the server's certificate is checked, and that it is for this host.
 */
export type PostgresTls = "disable" | "require" | "verify-full";

/** How long to wait for what, in milliseconds; each ends in an error. */
export interface PostgresTimeouts {
  readonly connectMs: number;
  /** For a row or an entry of an index that another transaction has changed. */
  readonly lockMs: number;
  readonly statementMs: number;
  /** For an answer to a statement: longer than `statementMs`, so that only a lost connection gets there. */
  readonly answerMs: number;
  /** To find out what became of a COMMIT that was not answered. */
  readonly outcomeMs: number;
}

export const DEFAULT_TIMEOUTS: PostgresTimeouts = {
  connectMs: 5_000,
  lockMs: 5_000,
  statementMs: 10_000,
  answerMs: 12_000,
  outcomeMs: 20_000,
};

const INT8_OID = 20;

/** What every connection is opened with. */
export function clientConfig(address: PostgresAddress, timeouts: PostgresTimeouts): ClientConfig {
  const url = new URL(address.url);
  const tls = address.tls ?? (url.searchParams.get("sslmode") as PostgresTls | null) ?? defaultTls(url);
  // The driver has a meaning of its own for it.
  url.searchParams.delete("sslmode");
  return {
    connectionString: url.href,
    ssl: tls === "disable" ? false : tlsOptions(address, tls),
    connectionTimeoutMillis: timeouts.connectMs,
    query_timeout: timeouts.answerMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    fallback_application_name: "jobgate",
    pipeline: true,
    types: {
      // All of them are far below 2^53: times, counts, and call ids, whose sequence ends there.
      getTypeParser: ((oid: number, format?: "text") =>
        oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  };
}

/** A password must not cross a network in the clear only because nobody thought of it. */
function defaultTls(url: URL): PostgresTls {
  const host = url.searchParams.get("host") ?? url.hostname;
  const address = host.replace(/^\[|\]$/g, "");
  const isLoopback =
    address === "localhost" || address === "::1" || (isIP(address) === 4 && /^127\./.test(address));
  return host === "" || host.startsWith("/") || isLoopback ? "disable" : "verify-full";
}

function tlsOptions({ ca }: PostgresAddress, tls: PostgresTls) {
  return {
    rejectUnauthorized: tls === "verify-full",
    ...(ca === undefined ? {} : { ca: readFileSync(ca) }),
  };
}

/** Settings of the session, in place of what the server, the database or the role may say. */
function sessionSettings(timeouts: PostgresTimeouts): Readonly<Record<string, string | number>> {
  return {
    statement_timeout: timeouts.statementMs,
    lock_timeout: timeouts.lockMs,
    // Ends the transaction of a replica that went away without a word, and so gives its locks back.
    idle_in_transaction_session_timeout: timeouts.statementMs,
    default_transaction_isolation: "'read committed'",
    // The tables of a queue are empty at one moment and full at the next, which statistics do not follow.
    enable_seqscan: "off",
    jit: "off",
  };
}

/**
 * Makes a connection that was just opened fit for use.
 * @throws Error when the server cannot be written to, or does not promise to keep what it has committed
 */
export async function prepareSession(client: ClientBase, timeouts: PostgresTimeouts): Promise<void> {
  const settings = Object.entries(sessionSettings(timeouts)).map(([name, value]) => `SET ${name} = ${value}`);
  const [, result] = await Promise.all([
    client.query(settings.join("; ")),
    client.query<{ commit: string; read_only: string }>(
      `SELECT current_setting('synchronous_commit') AS commit, current_setting('transaction_read_only') AS read_only`,
    ),
  ]);
  const { commit, read_only } = result.rows[0] ?? {};
  if (commit === "off")
    throw new Error("Postgres has synchronous_commit off, and so may lose what it has committed");
  if (read_only !== "off") throw new ReadOnlyServer();
}
