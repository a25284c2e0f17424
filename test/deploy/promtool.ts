import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/jobgate-promtool", import.meta.url));
const CACHED = join(CACHE, "usr/bin/promtool");

const run = promisify(execFile);

/**
 * The machine's own promtool; else, on Debian, the one of its package, of which nothing else is kept and nothing
 * installed. Rejects when there is none.
 */
export async function getPromtool(): Promise<string> {
  if (await run("promtool", ["--version"]).catch(() => undefined)) return "promtool";
  if (existsSync(CACHED)) return CACHED;
  await unpackPackage().catch((cause: unknown) => {
    throw new Error("promtool, a part of Prometheus, is neither here nor to be had from apt", { cause });
  });
  return CACHED;
}

async function unpackPackage(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-promtool-"));
  const download = () => run("apt-get", ["download", "prometheus"], { cwd: folder });
  try {
    // The lists of packages may be old, or not there.
    await download().catch(() => run("apt-get", ["update"]).then(download));
    await mkdir(CACHE, { recursive: true });
    const unpack = `dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x -C "$0" ./usr/bin/promtool`;
    await run("sh", ["-c", unpack, CACHE], { cwd: folder });
  } finally {
    await rm(folder, { recursive: true });
  }
}
