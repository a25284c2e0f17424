import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Makes a folder for the current test, and removes it after the test and its hooks. */
export async function testFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
