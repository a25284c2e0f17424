import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mistakeText } from "../../src/config/mistakes.ts";
import { loadConfig } from "../../src/load-config.ts";
import { TOKEN, X402 } from "./config-folder.ts";

let folder: string;
const socket = createServer();
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-files-"));
  // Nobody writes to it, so opening it as usual would never end.
  execFileSync("mkfifo", [join(folder, "pipe")]);
  await new Promise<void>((resolve) => socket.listen(join(folder, "socket"), resolve));
});
afterAll(async () => {
  socket.close();
  await rm(folder, { recursive: true });
});

const load = (toml: string) =>
  loadConfig({ path: join(folder, "jobgate.toml"), toml, env: { PASSWORD: "x" } });
const mistakesOf = async (toml: string) => {
  const result = await load(toml);
  return result.ok ? [] : result.mistakes.map(mistakeText);
};
const input = (fields: string) =>
  `${X402}${TOKEN}[[jobs]]\njob_index = 0\nprice_wei = "1000000000000000"\ninput = { ${fields} }\n`;
const tls = (fields: string) => `[runner.tls]\n${fields}\n`;

test.each([
  ["a secret", "operator.token", '[operator]\ntoken = "file:pipe"\n'],
  ["a secret of a list", "runner.token[1]", '[runner]\ntoken = ["x", "file:pipe"]\n'],
  ["a schema", "jobs[0].input.schema", input('schema = "pipe"')],
  ["an example", "jobs[0].input.example", input('example = "pipe"')],
  ["a certificate", "runner.tls.cert", tls(`cert = "$DIR/pipe"\nkey = "$DIR/none"`)],
  ["a certificate's key", "runner.tls.key", tls(`cert = "$DIR/none"\nkey = "$DIR/pipe"`)],
  ["an authority of clients", "runner.tls.client_ca", tls('client_ca = "$DIR/pipe"')],
  ["a table", "x402", 'x402 = "pipe"\n'],
])("A pipe in place of %s is a mistake that names it", async (_what, keyPath, toml) => {
  const found = await mistakesOf(toml.replaceAll("$DIR", folder));
  const ofPipe = found.filter((text) => text.includes("cannot be read: it is a pipe"));
  expect(ofPipe).toHaveLength(1);
  expect(ofPipe[0]).toContain(join(folder, "pipe"));
  expect(ofPipe[0]).toContain(` ${keyPath}: `);
});

test.each([
  ["socket", "a socket"],
  ["/dev/zero", "a device"],
  [".", "a directory"],
])("No other file than a regular one is read: %s", async (file, kind) => {
  const [mistake] = await mistakesOf(`[operator]\ntoken = "file:${file}"\n`);
  expect(mistake).toContain(`which cannot be read: it is ${kind}; expected file:PATH`);
});

test("A secret is read through links, as Kubernetes mounts it", async () => {
  await mkdir(join(folder, "..2026"));
  await writeFile(join(folder, "..2026/token"), "hunter2\n", { mode: 0o600 });
  await symlink("..2026", join(folder, "..data"));
  await symlink("..data/token", join(folder, "token"));
  const result = await load('[operator]\ntoken = "file:token"\n');
  expect(result.ok && result.config.operator.tokens).toEqual(["hunter2"]);
});
