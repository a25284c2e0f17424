import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isBalanced } from "../../src/store/rules/payments.ts";
import { openDriver } from "../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { accounts } from "../helpers/accounts.ts";
import { eventually } from "../helpers/eventually.ts";
import { howMany } from "../helpers/how-many.ts";
import { type DiskEvent, RecordedDisk, readRecording, recordingCommand } from "../helpers/recorded-disk.ts";
import { acceptId } from "../store/store-fixtures.ts";
import { ACCEPTED } from "./expected-answers.ts";
import { startPaidGateway } from "./paid-gateway.ts";
import { type PaidParts, startPaidParts } from "./paid-parts.ts";

const WEBHOOKS = 300;
const SENDERS = 4;
const PAYMENTS = 20;
const CUTS = howMany(150, 1_000);
const WEBHOOKS_CONFIG = `
[webhooks]
bind_address = "127.0.0.1:0"
[[webhooks.endpoints]]
path = "/hook"
job_id = 5
auth = "bearer"
secret = "0123456789abcdef"
`;

/** A file system in memory, if there is one: its syncs take no time. */
const COPIES = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

let folder: string;
let events: readonly DiskEvent[];
/** Folder that jobgate wrote to. */
let written: string;
let parts: PaidParts;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "jobgate-power-"));
  parts = await startPaidParts();
  const tracePath = join(folder, "trace");
  const gateway = await startPaidGateway({
    parts,
    setUp: "rpc_url",
    asProcess: true,
    through: recordingCommand(tracePath),
    edit: (config) => config + WEBHOOKS_CONFIG,
    // Paid calls are acked. Webhooks fail and stay in the store, because nothing is left of one that was acked.
    handle({ jobId }) {
      if (jobId === 5n) throw new Error("not yet");
      return { body: Buffer.from("result") };
    },
  });
  try {
    written = gateway.jobgate.folder;
    await Promise.all([...Array.from({ length: SENDERS }, (_, i) => sendWebhooks(i)), pay()]);
    gateway.jobgate.kill("SIGTERM");
    await gateway.jobgate.exited;
    const trace = await eventually(async () => {
      const text = await readFile(tracePath, "latin1");
      expect(text).toMatch(new RegExp(`^${gateway.jobgate.pid} +\\+\\+\\+ exited with 0`, "m"));
      return text;
    });
    const isAnswer = (event: DiskEvent) => event.kind !== "sent" || event.text.startsWith("HTTP/1.1 202 ");
    events = readRecording(trace, written).filter(isAnswer);
  } finally {
    await gateway.stop();
  }

  async function sendWebhooks(sender: number): Promise<void> {
    for (let i = sender; i < WEBHOOKS; i += SENDERS) {
      const response = await fetch(`${gateway.jobgate.webhooksUrl}/hook`, {
        method: "POST",
        headers: { authorization: "Bearer 0123456789abcdef" },
        body: "x".repeat((i * 997) % 10_000),
      });
      expect(response.status).toBe(202);
    }
  }

  async function pay(): Promise<void> {
    for (let i = 0; i < PAYMENTS; i += 1) {
      const account = i % 2 === 0 ? accounts.payer : accounts.otherPayer;
      expect(await gateway.sendUntilDecided(await gateway.sign({ account }))).toMatchObject(ACCEPTED);
    }
  }
});
afterAll(async () => {
  await parts?.stop();
  await rm(folder, { recursive: true });
});

test("Every 202 survives a power loss at any moment, and each settled payment has its job", async () => {
  expect(answersIn(events)).toHaveLength(WEBHOOKS + PAYMENTS);
  const moments = Array.from({ length: CUTS }, () => Math.floor(Math.random() * events.length));
  const disk = new RecordedDisk(written);
  let at = 0;
  for (const moment of moments.sort((left, right) => left - right)) {
    for (; at <= moment; at += 1) disk.apply(events[at] as DiskEvent);
    const copy = await mkdtemp(join(COPIES, "jobgate-power-"));
    try {
      for (const [path, bytes] of disk.afterPowerLoss()) await writeFile(join(copy, basename(path)), bytes);
      expect(await lossesIn(join(copy, "jobgate.db"), answersIn(events.slice(0, at)))).toEqual([]);
    } finally {
      await rm(copy, { recursive: true });
    }
  }
});

/** Call ids of the 202s that were sent. */
function answersIn(sent: readonly DiskEvent[]): number[] {
  return sent.flatMap((event) =>
    event.kind === "sent" ? [Number(/"call_id": ?(\d+)/.exec(event.text)?.[1])] : [],
  );
}

/** Starts again on what the disk has. @returns what is wrong */
async function lossesIn(path: string, answered: readonly number[]): Promise<string[]> {
  const store = await openSqliteStore({
    path,
    threads: false,
    maxPending: 1_000_000,
    encodeJobCall: ({ body }) => body,
  });
  try {
    const totals = await store.totals();
    const { items: settled } = await store.listPayments({ state: "settled", limit: 1000 });
    const calls = callsIn(path);
    const stored = new Set(calls);
    return [
      ...answered.filter((id) => !stored.has(id)).map((id) => `call ${id} of ${answered.length} is lost`),
      ...settled.filter(({ callId }) => !stored.has(callId)).map(({ callId }) => `no job ${callId}`),
      ...(stored.size === calls.length ? [] : ["a call is there twice"]),
      ...(isBalanced(totals) ? [] : ["payments and paid calls do not balance"]),
      ...((await acceptId(store)) > Math.max(0, ...answered) ? [] : ["an id is given twice"]),
    ];
  } finally {
    await store.close();
  }
}

/** Reads the ids of all calls, finished paid ones included, from a database that must be sound. */
function callsIn(path: string): number[] {
  const database = openDriver(path);
  try {
    expect(database.prepare("PRAGMA integrity_check").all([])).toEqual([{ integrity_check: "ok" }]);
    return database
      .prepare<{ id: number }>(
        "SELECT call_id AS id FROM job_calls JOIN job_bodies USING (call_id) UNION ALL SELECT call_id FROM results",
      )
      .all([])
      .map(({ id }) => id);
  } finally {
    database.close();
  }
}
