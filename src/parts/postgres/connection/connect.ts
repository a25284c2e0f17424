import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import pg, { type ClientConfig } from "pg";

/** Address of the database, and how to trust it. */
export interface PostgresAddress {
  /**
   * `postgres://user:password@host:port/database`, with one host or several. Secret, because it may hold a password.
   * Connections read it when they open.
   */
  readonly url: string;
  /** File with the password. Connections read it when they open. */
  readonly passwordFile?: string | undefined;
  /**
   * Undefined means the URL's `sslmode`. If the URL has none, it means `disable` on loopback and Unix sockets, and
   * `verify-full` elsewhere.
   */
  readonly tls?: PostgresTls | undefined;
  /** Authorities to trust in place of the well-known authorities, in PEM. */
  readonly ca?: string | undefined;
}

/**
 * - `disable`: in the clear.
 * - `require`: encrypted, but any certificate is accepted.
 * - `verify-full`: the server's certificate must be valid for this host.
 */
type PostgresTls = "disable" | "require" | "verify-full";

/** Limits in milliseconds; exceeding a limit ends in an error. */
export interface PostgresTimeouts {
  readonly connectMs: number;
  /** Wait for a row or an index entry that another transaction has changed. */
  readonly lockMs: number;
  readonly statementMs: number;
  /** Wait for the answer to a statement: longer than `statementMs`, so that only a lost connection reaches it. */
  readonly answerMs: number;
  /** Time to find out the outcome of a COMMIT that was not answered. */
  readonly outcomeMs: number;
  /** Time without an answer to a commit after which the store cannot be written to. */
  readonly hangMs: number;
  /** Wait of a caller for a read or a commit, which may go on. */
  readonly callerMs: number;
}

export const DEFAULT_TIMEOUTS: PostgresTimeouts = {
  connectMs: 3_000,
  lockMs: 4_000,
  statementMs: 6_000,
  answerMs: 7_000,
  outcomeMs: 20_000,
  hangMs: 4_500,
  callerMs: 8_000,
};

/** Limits for lookups of operators, which read more. */
export function operatorTimeouts(timeouts: PostgresTimeouts): PostgresTimeouts {
  return { ...timeouts, statementMs: 2 * timeouts.statementMs, answerMs: 2 * timeouts.answerMs };
}

const INT8_OID = 20;

/** Options of every connection. @param address an address whose URL has one host */
export function clientConfig(address: PostgresAddress, timeouts: PostgresTimeouts): ClientConfig {
  const url = new URL(address.url);
  const tls = address.tls ?? (url.searchParams.get("sslmode") as PostgresTls | null) ?? defaultTls(url);
  // The driver gives `sslmode` another meaning.
  url.searchParams.delete("sslmode");
  url.searchParams.delete("target_session_attrs");
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
      // All integers in the tables are far below 2^53: times, counts, and call ids, whose sequence ends there.
      getTypeParser: ((oid: number, format?: "text") =>
        oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  };
}

/** Encrypts connections to other hosts by default, so that no password crosses a network in the clear by oversight. */
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
    ...(ca === undefined ? {} : { ca }),
  };
}

/** Limit for closing a connection, which takes a round trip. */
const END_MS = 3_000;

/**
 * A client whose connection ends in bounded time. The driver's client waits for the server to hang up, which a server
 * that cannot be reached never does.
 */
export class BoundedClient extends pg.Client {
  /** Statement that sets up each transaction, if sessions are not kept between transactions. */
  readonly begin: string | undefined;

  /** @param address an address whose URL has one host */
  constructor(address: PostgresAddress, timeouts: PostgresTimeouts, begin?: string) {
    super(clientConfig(address, timeouts));
    this.begin = begin;
    const { passwordFile } = address;
    // The driver calls a function for each connection, although its types do not say so.
    if (passwordFile !== undefined)
      this.password = (() => this.#readPassword(passwordFile)) as unknown as string;
  }

  /** Closes the connection at once, whatever it waits for. */
  abort(): void {
    this.connection.stream.destroy();
  }

  async #readPassword(file: string): Promise<string> {
    try {
      return (await readFile(file, "utf8")).replace(/[\r\n]+$/, "");
    } catch (error) {
      // The driver would leave the connection open.
      this.abort();
      throw error;
    }
  }

  override end(): Promise<void>;
  override end(onEnd: (error: Error) => void): void;
  override end(onEnd?: (error: Error) => void): Promise<void> | void {
    const timer = setTimeout(() => this.connection.stream.destroy(), END_MS);
    // The connection itself keeps the process alive for as long as it is open.
    timer.unref();
    this.once("end", () => clearTimeout(timer));
    return onEnd === undefined ? super.end() : super.end(onEnd);
  }
}
