import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { ROOT } from "./helpers/bundle.ts";

async function filesIn(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const texts = paths.map(async (path) => [path.slice(folder.length), await readFile(path, "utf8")] as const);
  return Object.fromEntries(await Promise.all(texts));
}

test("src/gen is exactly what `npm run generate` makes of the protos", async () => {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-gen-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const bin = join(ROOT, "node_modules/.bin");
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  await promisify(execFile)(join(bin, "buf"), ["generate", "-o", folder], { cwd: ROOT, env });
  expect(await filesIn(join(ROOT, "src/gen"))).toEqual(await filesIn(join(folder, "src/gen")));
});
