import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Makes a folder for the current test, and removes it after the test and its hooks. */
export async function testFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Returns digests of what files hold. To compare megabytes with `toEqual` takes ten seconds. */
export function digestsOf(...paths: readonly string[]): Promise<string[]> {
  return Promise.all(
    paths.map(async (path) =>
      createHash("sha256")
        .update(await readFile(path))
        .digest("hex"),
    ),
  );
}
