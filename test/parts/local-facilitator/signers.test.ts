import { execFileSync } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mistakeText } from "../../../src/config/mistakes.ts";
import { loadConfig } from "../../../src/load-config.ts";
import { findLocal } from "../../../src/parts/local-facilitator/config.ts";
import { TOKEN } from "../../config/config-folder.ts";
import { KEYSTORES } from "../../helpers/keystores.ts";

const { file, password, privateKey } = KEYSTORES["scrypt with blocks of 8"];
const other = KEYSTORES.pbkdf2.privateKey;
const env = { KEY: `${other}\n`, PASSWORD: password, WRONG: "hunter2" };

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-signers-"));
  const files = { "keystore.json": file, password: `${password}\n`, key: `${privateKey}\n`, empty: "\n" };
  for (const [name, contents] of Object.entries(files))
    await writeFile(join(folder, name), contents, { mode: 0o600 });
});
afterAll(() => rm(folder, { recursive: true }));

/** Reads the keys of a file whose third line has the signer. */
async function read(signer: string) {
  const facilitator = `[[x402.facilitators]]\nlocal = true\nsigner = ${signer}\nrpc_urls.base-sepolia = "http://127.0.0.1:1"\n`;
  const toml = `${facilitator}[x402]\npublic_url = "https://a.example"\n${TOKEN}`;
  const result = await loadConfig({ path: join(folder, "jobgate.toml"), toml, env });
  if (!result.ok) return { keys: undefined, mistakes: result.mistakes.map(mistakeText), warnings: [] };
  const signers = findLocal(result.config.x402?.facilitators)?.signers;
  return {
    keys: signers?.map(({ privateKey }) => privateKey),
    mistakes: [],
    warnings: result.warnings.map(mistakeText),
  };
}

test.each([
  ["in a variable", '{ private_key = "env:KEY" }', [other]],
  ["in a file beside the configuration", '{ private_key = "file:key" }', [privateKey]],
  ["in a keystore", '{ keystore = "keystore.json", password = "file:password" }', [privateKey]],
  [
    "of several accounts",
    '[{ keystore = "keystore.json", password = "env:PASSWORD" }, { private_key = "env:KEY" }]',
    [privateKey, other],
  ],
])("Reads a key %s", async (_where, signer, keys) => {
  expect(await read(signer)).toEqual({ keys, mistakes: [], warnings: [] });
});

const KEYSTORE = 'keystore = "keystore.json"';
test.each([
  [
    "A wrong password",
    `{ ${KEYSTORE}, password = "env:WRONG" }`,
    ".keystore: does not open with the password",
  ],
  ["A keystore without a password", `{ ${KEYSTORE} }`, ".password: is missing"],
  [
    "A password without a keystore",
    '{ private_key = "env:KEY", password = "env:WRONG" }',
    ".password: is never used",
  ],
  ["A keystore that is not there", '{ keystore = "none", password = "x" }', ".keystore: names "],
  [
    "A keystore that is another file",
    '{ keystore = "key", password = "x" }',
    ".keystore: is not Web3 Secret Storage",
  ],
  [
    "Two ways to give a key",
    `{ private_key = "env:KEY", ${KEYSTORE} }`,
    ": has both private_key and keystore",
  ],
  ["A signer without a key", "{}", ": has no key"],
  ["An empty list of signers", "[]", ": is empty; expected an array of tables"],
  [
    "One key twice",
    '[{ private_key = "file:key" }, { private_key = "file:key" }]',
    "[1]: has the key of another",
  ],
  [
    "A variable that holds no key",
    '{ private_key = "env:WRONG" }',
    ".private_key: has a character that is not a hex digit (environment variable WRONG); expected a private key",
  ],
  ["A file that is not there", '{ private_key = "file:none" }', ".private_key: names "],
])("%s is a mistake at its line", async (_what, signer, expected) => {
  const { mistakes } = await read(signer);
  expect(mistakes).toEqual([
    expect.stringContaining(`jobgate.toml:3: x402.facilitators[0].signer${expected}`),
  ]);
  expect(mistakes[0]).toMatch(/; expected/);
  expect(mistakes[0]).not.toMatch(/hunter2|7a28b5ba|976f9f77/);
});

test("A file that every user can read is a warning", async () => {
  await writeFile(join(folder, "open"), privateKey);
  await chmod(join(folder, "open"), 0o644);
  const { warnings } = await read('{ private_key = "file:open" }');
  expect(warnings).toEqual([
    expect.stringMatching(/:3: x402\.facilitators\[0\]\.signer\.private_key: .*chmod o-r/),
  ]);
});

test("A pipe in place of a keystore is a mistake that names it", async () => {
  execFileSync("mkfifo", [join(folder, "pipe")]);
  const { mistakes } = await read('{ keystore = "pipe", password = "env:PASSWORD" }');
  expect(mistakes).toEqual([
    expect.stringMatching(/:3: x402\.facilitators\[0\]\.signer\.keystore: .*cannot be read: it is a pipe/),
  ]);
});
