// Prints the contents of a Postgres store once, for a synchronous reader.
import { serialize } from "node:v8";
import type { CallState } from "../../src/store/contract/call-lookup.ts";
import { openReplica } from "../store/postgres/open-in-database.ts";

const [, , url] = process.argv;
if (url === undefined) throw new Error("expected the URL of a store");

const store = await openReplica(url);
const { items: payments } = await store.listPayments({ limit: 10_000 });
const callStates = new Map<number, CallState["state"] | undefined>();
for (const { callId } of payments) callStates.set(callId, (await store.findCall(callId))?.state);
const contents = { totals: await store.totals(), payments, callStates };
await store.close();
process.stdout.write(serialize(contents).toString("base64"));
