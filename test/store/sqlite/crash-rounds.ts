import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { processEnded, spawnTethered } from "../../../src/node/tethered-process.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { bundledScript } from "../../helpers/bundle.ts";
import { until } from "../../helpers/until.ts";
import { claimCalls, LEASE_MS } from "../store-fixtures.ts";

const CHILD = fileURLToPath(new URL("./crash-child.ts", import.meta.url));
const CLAIM_LIMIT_OF_CHILD = 4;
/** The child is killed at a random moment, within this time of its first ack. */
const KILLED_WITHIN_MS = 300;

/** Kills a process that writes to one store, in rounds, and checks everything that it had acknowledged. */
export async function runCrashRounds(rounds: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "jobgate-crash-"));
  try {
    for (let round = 0; round < rounds; round += 1) await runRound(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function runRound(folder: string): Promise<void> {
  const path = join(folder, "jobgate.db");
  const logPath = join(folder, "log");
  const args = [bundledScript(`import "${CHILD}";`), path, logPath];
  const child = spawnTethered({ command: process.execPath, args });
  child.stderr.pipe(process.stderr);
  try {
    await firstNote(logPath);
    await sleep(Math.random() * KILLED_WITHIN_MS);
  } finally {
    child.kill("SIGKILL");
    await processEnded(child);
  }
  await check(path, await readFile(logPath, "utf8"));
  await rm(logPath);
}

async function firstNote(logPath: string): Promise<void> {
  await until(async () => (await readFile(logPath, "utf8").catch(() => "")).includes("acked"));
}

/** Compares the store with the log, and leaves the store empty. */
async function check(path: string, log: string): Promise<void> {
  let now = Date.now();
  const options = { path, maxPending: 1_000_000, encodeJobCall: () => new Uint8Array(), clock: () => now };
  const store = await openSqliteStore(options);
  try {
    const { accepted, leased, acked } = parseLog(log);
    const { calls } = await store.totals();
    // The child's last claim and its last ack may have been committed without being noted.
    const notedLeases = leased.length - acked.length;
    expect(calls.leased).toBeGreaterThanOrEqual(notedLeases - 1);
    expect(calls.leased).toBeLessThanOrEqual(notedLeases + CLAIM_LIMIT_OF_CHILD);

    now += LEASE_MS + 1;
    const left = await claimCalls(store, { limit: 1_000_000, maxAttempts: 99 });
    expect(left.every(({ encoded }) => Buffer.from(encoded).equals(Buffer.alloc(256, "x")))).toBe(true);
    const leftIds = new Set(left.map(({ callId }) => callId));
    const ackedIds = new Set(acked);
    const lost = accepted.filter((callId) => !leftIds.has(callId) && !ackedIds.has(callId));
    expect(acked.filter((callId) => leftIds.has(callId))).toEqual([]);
    // Only the ack that was under way can have finished a call without being noted.
    expect(lost.length).toBeLessThanOrEqual(1);
    expect(leased).toEqual(expect.arrayContaining(lost));
    await Promise.all(left.map((call) => store.ack(call)));
    expect((await store.totals()).calls).toEqual({ held: 0, ready: 0, leased: 0, dead: 0 });
  } finally {
    await store.close();
  }
}

function parseLog(log: string) {
  const notes = log.split("\n").map((line) => line.split(" "));
  const idsOf = (word: string) => notes.filter(([noted]) => noted === word).map(([, id]) => Number(id));
  return { accepted: idsOf("accepted"), leased: idsOf("leased"), acked: idsOf("acked") };
}
