import { existsSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { processEnded, spawnTethered } from "../../src/node/tethered-process.ts";
import { freePort } from "./free-port.ts";
import { until } from "./until.ts";

/** PgBouncer refuses to run as root: then as `nobody`. */
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

const PROGRAM = "/usr/sbin/pgbouncer";

/** Checks whether the package `pgbouncer` of Debian is installed. */
export function hasPgBouncer(): boolean {
  return existsSync(PROGRAM);
}

/** A pooler before a Postgres server. */
export interface PgBouncer {
  readonly port: number;
  /** The same database by way of the pooler. */
  urlOf(url: string): string;
  stop(): Promise<void>;
}

/** Starts PgBouncer in transaction mode: each transaction of a client can be on another connection. */
export async function startPgBouncer(postgres: { readonly port: number }): Promise<PgBouncer> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-pgbouncer-"));
  const port = await freePort();
  const file = join(folder, "pgbouncer.ini");
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${postgres.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
server_check_delay = 0
server_idle_timeout = 5
max_client_conn = 500
`,
  );
  if (isRoot) await Promise.all([chown(folder, NOBODY, NOBODY), chown(file, NOBODY, NOBODY)]);
  const child = spawnTethered({
    command: PROGRAM,
    args: [file],
    cwd: folder,
    ...(isRoot && { uid: NOBODY, gid: NOBODY }),
  });
  let printed = "";
  const note = (chunk: Buffer) => {
    printed = (printed + chunk.toString()).slice(-5_000);
  };
  child.stdout.on("data", note);
  child.stderr.on("data", note);
  const urlOf = (url: string) => {
    const own = new URL(url);
    own.port = String(port);
    return own.href;
  };
  const answers = async () => {
    const client = new pg.Client({ connectionString: `postgres://postgres@127.0.0.1:${port}/postgres` });
    client.on("error", () => undefined);
    return client
      .connect()
      .then(
        () => true,
        () => false,
      )
      .finally(() => client.end().catch(() => undefined));
  };
  await until(answers, { details: () => printed });
  return {
    port,
    urlOf,
    async stop() {
      child.kill("SIGKILL");
      await processEnded(child);
      await rm(folder, { recursive: true });
    },
  };
}
