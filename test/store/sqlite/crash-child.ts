// Works on a store until it is killed, and logs what the store has acknowledged.
import { openSync, writeSync } from "node:fs";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { acceptId, claimCalls } from "../store-fixtures.ts";

const [path, logPath] = process.argv.slice(2);
if (path === undefined || logPath === undefined)
  throw new Error("expected the paths of a store and of a log");

const store = await openSqliteStore({ path, maxPending: 1_000_000, encodeJobCall: ({ body }) => body });
const log = openSync(logPath, "a");
// Synchronous, and to a file: the notes survive a kill.
const note = (word: string, callId: number) => writeSync(log, `${word} ${callId}\n`);

async function acceptForever(): Promise<never> {
  for (;;) note("accepted", await acceptId(store, { body: Buffer.alloc(256, "x") }));
}

async function claimForever(): Promise<never> {
  for (;;) {
    const claimed = await claimCalls(store, { limit: 4 });
    for (const { callId } of claimed) note("leased", callId);
    const [first] = claimed;
    if (first !== undefined && (await store.ack(first)).outcome === "done") note("acked", first.callId);
  }
}

await Promise.all([...Array.from({ length: 16 }, acceptForever), claimForever()]);
