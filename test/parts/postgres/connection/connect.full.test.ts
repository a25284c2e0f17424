import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientConfig, DEFAULT_TIMEOUTS } from "../../../../src/parts/postgres/connection/connect.ts";
import type { PostgresStoreOptions } from "../../../../src/parts/postgres/postgres-store.ts";
import { type Postgres, startPostgres } from "../../../helpers/postgres.ts";
import { acceptId } from "../../../store/store-fixtures.ts";
import { openReplica } from "../open-in-database.ts";

let folder: string;
let postgres: Postgres;
let database: string;
const file = (name: string) => join(folder, name);
const pem = (name: string) => readFile(file(name), "utf8");

/** Time between two of 400 questions. */
const BETWEEN_QUESTIONS_MS = 0.5;

/** Signed by itself, and for `localhost` only. */
async function makeCertificate(name: string): Promise<void> {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const out = ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)];
  await promisify(execFile)("openssl", ["req", "-x509", ...key, ...subject, ...out], { timeout: 20_000 });
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-postgres-tls-"));
  await Promise.all([makeCertificate("server"), makeCertificate("stranger")]);
  postgres = await startPostgres({ tls: { cert: file("server.pem"), key: file("server.key") } });
  database = await postgres.createDatabase();
});
afterAll(async () => {
  await postgres?.stop();
  await rm(folder, { recursive: true });
});

/** Returns whether the store's connections are encrypted; all must agree. */
async function isEncrypted(options: Partial<PostgresStoreOptions>, url = database): Promise<boolean> {
  const store = await openReplica(url, options);
  try {
    await acceptId(store);
    const encrypted = () =>
      postgres.query<{ ssl: boolean }>(
        database,
        `SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'jobgate'`,
      );
    // The listening connection connects later than the others.
    await expect.poll(async () => (await encrypted()).length).toBeGreaterThanOrEqual(3);
    const found = new Set((await encrypted()).map(({ ssl }) => ssl));
    expect(found.size).toBe(1);
    return found.has(true);
  } finally {
    await store.close();
  }
}

describe("TLS to Postgres", () => {
  const byName = () => database.replace("127.0.0.1", "localhost");

  test("On loopback it is off unless requested in the URL or by store.tls, which takes precedence", async () => {
    expect(await isEncrypted({})).toBe(false);
    expect(await isEncrypted({}, `${database}?sslmode=require`)).toBe(true);
    expect(await isEncrypted({ tls: "disable" }, `${database}?sslmode=require`)).toBe(false);
  });

  test("verify-full accepts only a certificate of its authority for its host", async () => {
    expect(await isEncrypted({ tls: "verify-full", ca: await pem("server.pem") }, byName())).toBe(true);
    const refused = (url: string, ca?: string) =>
      expect(openReplica(url, { tls: "verify-full", ...(ca === undefined ? {} : { ca }) })).rejects;
    await refused(byName()).toThrow(/self-signed/);
    await refused(byName(), await pem("stranger.pem")).toThrow(/self-signed|verify/);
    await refused(database, await pem("server.pem")).toThrow(/does not match|not in the cert/);
  });

  test("A server without TLS is refused where TLS is required", async () => {
    const plain = await startPostgres();
    try {
      await expect(openReplica(await plain.createDatabase(), { tls: "require" })).rejects.toThrow(
        /does not support SSL/,
      );
    } finally {
      await plain.stop();
    }
  });

  test("A host on the network gets no plaintext connection unless configured", () => {
    const tlsOf = (url: string) => clientConfig({ url }, DEFAULT_TIMEOUTS).ssl;
    expect(tlsOf("postgres://u:p@db.example/jobgate")).toEqual({ rejectUnauthorized: true });
    expect(tlsOf("postgres://u:p@10.0.0.1/jobgate")).toEqual({ rejectUnauthorized: true });
    expect(tlsOf("postgres://u:p@db.example/jobgate?sslmode=require")).toEqual({ rejectUnauthorized: false });
    for (const url of ["postgres://[::1]/jobgate", "postgres:///jobgate?host=/run/postgresql"]) {
      expect(tlsOf(url)).toBe(false);
    }
  });
});

describe("A server that is not there yet", () => {
  let starting: Postgres;
  let url: string;
  const logs: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void logs.push(line) });
  beforeAll(async () => {
    starting = await startPostgres();
    url = await starting.createDatabase();
    await starting.kill("SIGINT");
  });
  afterAll(() => starting?.stop());

  test("is waited for as long as the configuration says", async () => {
    const startedAt = performance.now();
    await expect(openReplica(url, { connectTimeoutMs: 700 })).rejects.toThrow(/ECONNREFUSED/);
    expect(performance.now() - startedAt).toBeGreaterThan(690);
  });

  test("is not waited for any more after the signal to stop", async () => {
    const stop = new AbortController();
    const opening = expect(openReplica(url, { signal: stop.signal })).rejects.toThrow(/abort/);
    stop.abort();
    await opening;
  });

  test("is used once it is ready; the log says when the wait began and ended", async () => {
    const opening = openReplica(url, { logger });
    await expect.poll(() => logs.join("")).toContain("waiting for Postgres");
    await starting.start();
    const store = await opening;
    await acceptId(store);
    await store.close();
    expect(logs.join("")).toMatch(/"waitedMs":[0-9]+.*connected to Postgres/);
  });

  test("is told from a wrong database or user, which fails at once", async () => {
    await expect(openReplica(`${url}_unknown`)).rejects.toThrow(/does not exist/);
    await expect(openReplica(url.replace("postgres@", "nobody@"))).rejects.toThrow(/does not exist/);
  });
});

test("A client's lookups do not wait for the operator's lookups", async () => {
  const url = await postgres.createDatabase();
  const store = await openReplica(url);
  const lock = await postgres.hold(url, "LOCK TABLE jobgate.revenue_hours IN ACCESS EXCLUSIVE MODE");
  try {
    const asked = Array.from({ length: 20 }, () => store.revenue({ since: 0, bucketMs: 3_600_000 }));
    expect(await store.findCall(1)).toBeUndefined();
    await lock.commit();
    expect((await Promise.all(asked)).flat()).toEqual([]);
  } finally {
    await store.close();
  }
});

test("The number of connections stays within the pool's size under any load", async () => {
  const url = await postgres.createDatabase();
  const patient = {
    ...DEFAULT_TIMEOUTS,
    connectMs: 60_000,
    lockMs: 60_000,
    statementMs: 70_000,
    answerMs: 80_000,
  };
  const store = await openReplica(url, { poolSize: 6, timeouts: patient });
  // What is asked for keeps its connection until then.
  const lock = await postgres.hold(url, "LOCK TABLE jobgate.job_calls IN ACCESS EXCLUSIVE MODE");
  try {
    // Spread out, so that one batch is under way when the next one begins.
    const asks: (() => Promise<unknown>)[] = [
      () => acceptId(store),
      () => store.findCall(1),
      () => store.totals(),
    ];
    const asked = Promise.allSettled(
      Array.from({ length: 400 }, async (_, i) => {
        await sleep(i * BETWEEN_QUESTIONS_MS);
        await asks[i % asks.length]?.();
      }),
    );
    const open = () =>
      postgres.query(
        url,
        "SELECT FROM pg_stat_activity WHERE application_name = 'jobgate' AND datname = current_database()",
      );
    await expect.poll(async () => (await open()).length).toBe(6);
    for (let look = 0; look < 5; look += 1) expect((await open()).length).toBe(6);
    await lock.commit();
    expect((await asked).filter(({ status }) => status === "rejected")).toEqual([]);
    expect((await open()).length).toBeLessThanOrEqual(6);
  } finally {
    await store.close();
  }
});

test("Connections that are opened after a rotation have the new user, the listening one too, and open ones stay", async () => {
  const rotated = await postgres.createDatabase();
  const query = <Row extends object>(sql: string) => postgres.query<Row>(rotated, sql);
  await query("CREATE ROLE first SUPERUSER LOGIN");
  await query("CREATE ROLE second SUPERUSER LOGIN");
  const urlOf = (user: string) => rotated.replace(/\/\/[^@]*@/, `//${user}@`);
  const connections = (condition = "true") =>
    query<{ pid: number; usename: string }>(
      `SELECT pid, usename FROM pg_stat_activity
        WHERE application_name = 'jobgate' AND datname = current_database() AND ${condition}`,
    );
  const listening = () => connections("query ~ '^LISTEN|pg_notify'");
  const store = await openReplica(urlOf("first"));
  try {
    await acceptId(store);
    await expect.poll(listening).toMatchObject([{ usename: "first" }]);
    const before = await connections();
    await store.useUrl?.(urlOf("second"));
    await acceptId(store);
    expect(await connections()).toEqual(expect.arrayContaining(before));

    await query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'first'");
    await expect.poll(listening).toMatchObject([{ usename: "second" }]);
    await expect.poll(() => acceptId(store).catch(() => 0)).toBeGreaterThan(0);
    await expect.poll(() => connections("usename = 'first'")).toEqual([]);
    expect(await connections("query !~ '^LISTEN|pg_notify'")).not.toEqual([]);
  } finally {
    await store.close();
  }
});
