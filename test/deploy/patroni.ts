import { readdirSync, readlinkSync } from "node:fs";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { processEnded, spawnTethered, type TetheredProcess } from "../../src/node/tethered-process.ts";
import { freePort } from "../helpers/free-port.ts";
import { type PostgresProxy, startPostgresProxy } from "../helpers/postgres-proxy.ts";
import { until } from "../helpers/until.ts";

/** Postgres refuses to run as root. */
const NOBODY = 65_534;
const POSTGRES_BIN = "/usr/lib/postgresql/15/bin";
/** Patroni's smallest: a leader that is gone is replaced after this time. */
const LEADER_LEASE_SECS = 20;
const DATABASE = "jobgate";

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

/** A Postgres server and the Patroni that runs it. All their processes are in one PID namespace. */
export interface PatroniNode {
  readonly name: string;
  readonly port: number;
  /** Kills Patroni and Postgres. */
  kill(): Promise<void>;
  /** Starts them again, on the same files. */
  start(): Promise<void>;
  /** Stops or continues all of its processes. */
  signal(signal: "SIGSTOP" | "SIGCONT"): void;
  /** Takes etcd away from this node, or gives it back. */
  setPartitioned(isPartitioned: boolean): void;
  /** Runs SQL on this node. */
  query<Row extends pg.QueryResultRow>(sql: string): Promise<Row[]>;
  /** Returns true if this node takes writes. */
  isPrimary(): Promise<boolean>;
}

/** Two nodes with synchronous replication, which agree by etcd on which of them is the primary. */
export interface PatroniCluster {
  readonly nodes: readonly [PatroniNode, PatroniNode];
  /** URL of an empty database on both nodes. */
  createDatabase(): Promise<string>;
  /** Waits until one node leads and the other is its synchronous standby. */
  healthy(): Promise<{ primary: PatroniNode; standby: PatroniNode }>;
  /** Lets standbys replay what they have on disk only after a time, or at once again. */
  delayReplay(delay: "10min" | null): Promise<void>;
  /** Asks Patroni to exchange the nodes' roles. */
  switchOver(): Promise<void>;
  stop(): Promise<void>;
}

export async function startPatroniCluster(): Promise<PatroniCluster> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-patroni-"));
  await chown(folder, NOBODY, NOBODY);
  const etcd = await startEtcd(folder);
  const first = await startNode("pg0", folder, etcd.port);
  await until(first.isPrimary, { details: first.printed });
  const second = await startNode("pg1", folder, etcd.port);
  const nodes = [first, second] as const;
  let databases = 0;

  async function members(): Promise<readonly Member[]> {
    for (const { restPort } of nodes) {
      const members = await fetch(`http://127.0.0.1:${restPort}/cluster`, {
        signal: AbortSignal.timeout(2_000),
      })
        .then(async (response) => ((await response.json()) as { members: Member[] }).members)
        .catch(() => undefined);
      if (members !== undefined) return members;
    }
    return [];
  }

  async function healthy() {
    const [primary, standby] = await until(
      async () => {
        const all = await members();
        const named = (role: string) => all.find((member) => member.role === role)?.name;
        const [leader, sync] = [named("leader"), named("sync_standby")];
        const found = [leader, sync].map((name) => nodes.find((node) => node.name === name));
        return found[0] !== undefined && found[1] !== undefined && (await found[0].isPrimary())
          ? [found[0], found[1]]
          : undefined;
      },
      { details: () => nodes.map(({ printed }) => printed()).join("\n\n") },
    );
    return { primary: primary as PatroniNode, standby: standby as PatroniNode };
  }

  return {
    nodes,
    healthy,
    async createDatabase() {
      const { primary } = await healthy();
      const name = `${DATABASE}_${++databases}`;
      await primary.query(`CREATE DATABASE ${name}`);
      const hosts = nodes.map(({ port }) => `127.0.0.1:${port}`).join();
      return `postgres://postgres@${hosts}/${name}?target_session_attrs=read-write`;
    },
    async delayReplay(delay) {
      const { restPort } = first;
      const body = JSON.stringify({ postgresql: { recovery_conf: { recovery_min_apply_delay: delay } } });
      let answer = "";
      const isSet = async () => {
        const response = await fetch(`http://127.0.0.1:${restPort}/config`, { method: "PATCH", body });
        answer = await response.text();
        return response.ok;
      };
      // Refused as a conflict while Patroni itself writes its configuration.
      await until(isSet, { details: () => answer });
    },
    async switchOver() {
      const { primary, standby } = await healthy();
      const restPort = nodes.find(({ name }) => name === primary.name)?.restPort;
      const response = await fetch(`http://127.0.0.1:${restPort}/switchover`, {
        method: "POST",
        body: JSON.stringify({ leader: primary.name, candidate: standby.name }),
      });
      if (!response.ok) throw new Error(`Patroni refused the switch-over: ${await response.text()}`);
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.kill()));
      await Promise.all(nodes.map((node) => node.closeProxy()));
      await etcd.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

async function startEtcd(folder: string): Promise<{ port: number; stop(): Promise<void> }> {
  const [port, peerPort] = [await freePort(), await freePort()];
  const [url, peerUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  const child = spawnTethered({
    command: "etcd",
    args: [
      ...["--data-dir", join(folder, "etcd"), "--unsafe-no-fsync"],
      ...["--listen-client-urls", url, "--advertise-client-urls", url],
      ...["--listen-peer-urls", peerUrl, "--initial-advertise-peer-urls", peerUrl],
      ...["--initial-cluster", `default=${peerUrl}`],
    ],
  });
  const printed = noteOutput(child);
  const answers = () =>
    fetch(`${url}/health`)
      .then(({ ok }) => ok)
      .catch(() => false);
  await until(answers, { details: printed });
  return {
    port,
    async stop() {
      child.kill("SIGKILL");
      await processEnded(child);
    },
  };
}

async function startNode(name: string, folder: string, etcdPort: number) {
  const [port, restPort] = [await freePort(), await freePort()];
  const proxy: PostgresProxy = await startPostgresProxy(etcdPort);
  const etcd = new URL(proxy.urlOf(`postgres://127.0.0.1:${etcdPort}/`)).host;
  const file = join(folder, `${name}.json`);
  // YAML, which Patroni reads, contains JSON.
  await writeFile(file, JSON.stringify(configuration({ name, folder, port, restPort, etcd })));
  let child: TetheredProcess;
  let printed: () => string;

  async function start(): Promise<void> {
    const asNobody = [
      "setpriv",
      `--reuid=${NOBODY}`,
      `--regid=${NOBODY}`,
      "--clear-groups",
      "--pdeathsig=KILL",
    ];
    child = spawnTethered({
      command: "unshare",
      // The namespace's processes, which Patroni starts as daemons, end with it.
      args: ["--pid", "--fork", "--kill-child", "--mount-proc", ...asNobody, "patroni", file],
      cwd: folder,
    });
    printed = noteOutput(child);
    const answers = () =>
      fetch(`http://127.0.0.1:${restPort}/liveness`)
        .then(({ ok }) => ok)
        .catch(() => false);
    await until(answers, { details: printed });
  }

  await start();
  return {
    name,
    port,
    restPort,
    printed: () => printed(),
    start,
    async kill() {
      child.kill("SIGKILL");
      await processEnded(child);
    },
    signal(signal: "SIGSTOP" | "SIGCONT") {
      for (const pid of inNamespaceOf(child)) process.kill(pid, signal);
    },
    async query<Row extends pg.QueryResultRow>(sql: string) {
      const client = new pg.Client({ connectionString: `postgres://postgres@127.0.0.1:${port}/postgres` });
      await client.connect();
      try {
        return (await client.query<Row>(sql)).rows;
      } finally {
        await client.end();
      }
    },
    setPartitioned: (isPartitioned: boolean) => proxy.setStalled(isPartitioned),
    isPrimary: () =>
      fetch(`http://127.0.0.1:${restPort}/primary`, { signal: AbortSignal.timeout(2_000) })
        .then(({ status }) => status === 200)
        .catch(() => false),
    closeProxy: () => proxy.stop(),
  };
}

function configuration(node: { name: string; folder: string; port: number; restPort: number; etcd: string }) {
  const { name, folder, port, restPort, etcd } = node;
  const rest = `127.0.0.1:${restPort}`;
  const server = `127.0.0.1:${port}`;
  return {
    scope: "jobgate",
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { hosts: [etcd], use_proxies: true },
    bootstrap: {
      dcs: {
        ...{ ttl: LEADER_LEASE_SECS, loop_wait: 1, retry_timeout: 3, primary_start_timeout: 0 },
        synchronous_mode: true,
        postgresql: { use_pg_rewind: true },
      },
      initdb: [{ encoding: "UTF8" }, "no-locale", "data-checksums"],
      pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
    },
    postgresql: {
      ...{ listen: server, connect_address: server, bin_dir: POSTGRES_BIN },
      data_dir: join(folder, name),
      pgpass: join(folder, `${name}.pgpass`),
      authentication: {
        superuser: { username: "postgres" },
        replication: { username: "replicator" },
        rewind: { username: "rewind" },
      },
      parameters: { unix_socket_directories: "", wal_keep_size: "512MB" },
    },
  };
}

function noteOutput(child: TetheredProcess): () => string {
  let printed = "";
  const note = (chunk: Buffer) => {
    printed = (printed + chunk.toString()).slice(-5_000);
  };
  child.stdout.on("data", note);
  child.stderr.on("data", note);
  return () => printed;
}

/** Returns the processes in the PID namespace that `unshare` made. */
function inNamespaceOf(child: TetheredProcess): number[] {
  const namespace = readLink(`/proc/${child.pid}/ns/pid_for_children`);
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && readLink(`/proc/${name}/ns/pid`) === namespace)
    .map(Number);
}

/** Returns undefined for a process that has ended. */
function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
