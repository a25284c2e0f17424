import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ROOT, run, WORKSHOP } from "./e2e/workshop.ts";

/**
 * Files whose subject differs between versions of Node: from version 24 on, the store uses the SQLite of Node, and from 26 on,
 * Node refuses keys that it accepted before.
 */
const FILES = [
  ...["sqlite-store", "inspect", "differential"].map((name) => `test/store/sqlite/${name}.test.ts`),
  "test/core/private-keys.test.ts",
];
/** Newest version of Node with long-term support. */
const NEWEST = 26;
const FOLDER = join(WORKSHOP, "newest-node");
const BIN = join(FOLDER, `node_modules/node-${process.platform}-${process.arch}/bin`);

beforeAll(async () => {
  await mkdir(FOLDER, { recursive: true });
  await writeFile(join(FOLDER, "package.json"), '{ "private": true }\n');
  const node = `node-${process.platform}-${process.arch}@${NEWEST}`;
  await run(
    "npm",
    ["install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", node],
    FOLDER,
  );
});

test("The tests of what depends on the version of Node pass on the newest Node", async () => {
  const node = join(BIN, "node");
  expect(await run(node, ["--version"], ROOT)).toContain(`v${NEWEST}.`);
  const own = Object.fromEntries(
    Object.keys(process.env).flatMap((name) => (name.startsWith("VITEST") ? [[name, ""]] : [])),
  );
  const env = { ...own, PATH: `${BIN}:${process.env.PATH}` };
  const printed = await run(
    node,
    ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", ...FILES],
    ROOT,
    env,
  );
  expect(printed).toMatch(/Tests .*\d{3} passed/);
});
