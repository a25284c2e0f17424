import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadStorePlace } from "../../../src/load-config.ts";
import { connectionTable } from "../../../src/parts/postgres/config.ts";
import { loadFiles } from "../../config/config-folder.ts";
import { testMistakes } from "../../config/mistake-cases.ts";

const URL = 'url = "postgres://jobgate:hunter2@db.example/jobgate"';

testMistakes([
  ...[
    "pool_size = 5",
    "connect_timeout_secs = 5",
    'tls = "require"',
    'ca = "package.json"',
    'password_file = "package.json"',
    "listen = false",
  ].map((line) => ({
    promise: `${line} with a SQLite store is a mistake`,
    toml: `[store]\n${line} #!`,
    keyPath: `store.${line.split(" ")[0]}`,
    message: /postgres:\/\/ store/,
  })),
  {
    promise: "A pool of fewer than 4 connections is a mistake",
    toml: `[store]\n${URL}\npool_size = 3 #!`,
    keyPath: "store.pool_size",
    message: /4/,
  },
  {
    promise: "An unknown value of tls is a mistake",
    toml: `[store]\n${URL}\ntls = "prefer" #!`,
    keyPath: "store.tls",
    message: /verify-full/,
  },
  {
    promise: "Certificates in the URL are a mistake that does not quote the URL",
    toml: `[store]\n${URL.slice(0, -1)}?sslrootcert=x" #!`,
    keyPath: "store.url",
    message: /sslrootcert; expected store\.tls and store\.ca/,
  },
  {
    promise: "An sslmode that makes encryption optional is a mistake",
    toml: `[store]\n${URL.slice(0, -1)}?sslmode=prefer" #!`,
    keyPath: "store.url",
    message: /expected disable, require, verify-full/,
  },
  {
    promise: "A session that cannot write is a mistake",
    toml: `[store]\n${URL.slice(0, -1)}?target_session_attrs=prefer-standby" #!`,
    keyPath: "store.url",
    message: /target_session_attrs=prefer-standby; expected read-write, primary/,
  },
  {
    promise: "Several hosts in a parameter of the URL are a mistake",
    toml: `[store]\nurl = "postgres:///jobgate?host=a,b" #!`,
    keyPath: "store.url",
    message: /before the path/,
  },
  {
    promise: "A password in the URL and in a file is a mistake",
    toml: `[store]\npassword_file = "package.json"\n${URL} #!`,
    keyPath: "store.url",
    message: /password beside store\.password_file/,
  },
  {
    promise: "A missing password file is a mistake",
    toml: `[store]\nurl = "postgres://a@b/c"\npassword_file = "missing" #!`,
    keyPath: "store.password_file",
    message: /no such file/,
  },
  {
    promise: "A missing ca file is a mistake",
    toml: `[store]\n${URL}\nca = "missing.pem" #!`,
    keyPath: "store.ca",
    message: /cannot be read/,
  },
]);

test("Connection keys are part of a Postgres store only", async () => {
  const postgres = await loadFiles(`[store]\n${URL}\npool_size = 5\ntls = "require"\n`);
  expect(postgres.ok && connectionTable.in(postgres.config.store)).toEqual({ poolSize: 5, tls: "require" });
  const sqlite = await loadFiles("");
  expect(sqlite.ok && connectionTable.in(sqlite.config.store)).toEqual({});
});

test("The place of a Postgres store has the contents of its authorities' file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-place-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "jobgate.toml");
  await writeFile(join(folder, "ca.pem"), "-----BEGIN CERTIFICATE-----\n");
  await writeFile(path, `[store]\nurl = "postgres://a@b/c"\nca = "${join(folder, "ca.pem")}"\n`);
  const place = await loadStorePlace({ path, env: {} });
  expect(place.ok && connectionTable.in(place.store)).toEqual({ ca: "-----BEGIN CERTIFICATE-----\n" });
});

test("A password file without a password is a mistake, and connections get the path of a file that has a password", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-password-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const passwordFile = join(folder, "password");
  const toml = `[store]\nurl = "postgres://a@b,c/d"\npassword_file = "${passwordFile}"\n`;
  await writeFile(passwordFile, "\n");
  const empty = await loadFiles(toml);
  expect(empty.ok ? [] : empty.mistakes.map(({ message }) => message)).toEqual([
    `names ${passwordFile}, which holds no password`,
  ]);
  await writeFile(passwordFile, "hunter2\n");
  const loaded = await loadFiles(toml);
  expect(loaded.ok && connectionTable.in(loaded.config.store)).toEqual({ passwordFile });
});
