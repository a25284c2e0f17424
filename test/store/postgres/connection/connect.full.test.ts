import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientConfig, DEFAULT_TIMEOUTS } from "../../../../src/store/postgres/connection/connect.ts";
import type { PostgresStoreOptions } from "../../../../src/store/postgres/postgres-store.ts";
import { type Postgres, startPostgres } from "../../../helpers/postgres.ts";
import { acceptId } from "../../store-fixtures.ts";
import { openReplica } from "../open-in-database.ts";

let folder: string;
let postgres: Postgres;
let database: string;
const file = (name: string) => join(folder, name);

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
    expect(await isEncrypted({ tls: "verify-full", ca: file("server.pem") }, byName())).toBe(true);
    const refused = (url: string, ca?: string) =>
      expect(openReplica(url, { tls: "verify-full", ...(ca === undefined ? {} : { ca: file(ca) }) })).rejects;
    await refused(byName()).toThrow(/self-signed/);
    await refused(byName(), "stranger.pem").toThrow(/self-signed|verify/);
    await refused(database, "server.pem").toThrow(/does not match|not in the cert/);
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

test("The number of connections stays within the pool's size under any load", async () => {
  const url = await postgres.createDatabase();
  const store = await openReplica(url, { poolSize: 6 });
  try {
    // Spread out, so that one batch is under way when the next one begins.
    const asked = Array.from({ length: 400 }, (_, i) =>
      sleep(i / 2).then(async () => void (await (i % 2 ? acceptId(store) : store.findCall(i)))),
    );
    const open = () =>
      postgres.query(
        url,
        "SELECT FROM pg_stat_activity WHERE application_name = 'jobgate' AND datname = current_database()",
      );
    for (let look = 0; look < 5; look += 1) expect((await open()).length).toBeLessThanOrEqual(6);
    await Promise.all(asked);
    await expect.poll(async () => (await open()).length).toBe(6);
  } finally {
    await store.close();
  }
});
