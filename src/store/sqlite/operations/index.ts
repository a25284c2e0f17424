import type { Capacity } from "../../capacity.ts";
import type { Database } from "../driver.ts";
import { deadLetterOperations, prepareBuryCall } from "./dead-letters.ts";
import { lookupOperations } from "./lookups.ts";
import { intakeOperations, prepareInsertCall } from "./new-calls.ts";
import { offerLookups, offerOperations } from "./offers.ts";
import { paymentOperations } from "./payments.ts";
import { probeOperations } from "./probe.ts";
import { quoteLookups, quoteOperations } from "./quotes.ts";
import { prepareFinishPaidCall } from "./results.ts";
import { revenueOperations } from "./revenue.ts";
import { totalsOperations } from "./totals.ts";
import { workQueueOperations } from "./work-queue.ts";

/** Everything that the one writing connection does, by name. Each takes its input and the time. */
export function writeOperations(database: Database, capacity: Capacity) {
  const insertCall = prepareInsertCall(database, capacity);
  const finishPaidCall = prepareFinishPaidCall(database);
  const buryCall = prepareBuryCall(database, capacity);
  return {
    ...intakeOperations(database, capacity, insertCall),
    ...paymentOperations(database, capacity, insertCall),
    ...workQueueOperations(database, capacity, buryCall, finishPaidCall),
    ...deadLetterOperations(database, capacity, finishPaidCall),
    ...offerOperations(database),
    ...quoteOperations(database),
    ...probeOperations(database),
  };
}

/** Everything that the reading connection does, by name. */
export function readOperations(database: Database) {
  return {
    ...lookupOperations(database),
    ...offerLookups(database),
    ...quoteLookups(database),
    ...revenueOperations(database),
    ...totalsOperations(database),
  };
}

export type WriteOperations = ReturnType<typeof writeOperations>;
export type ReadOperations = ReturnType<typeof readOperations>;

/** One operation as plain data, as it goes to the worker. */
export type OperationOf<Operations extends OperationTable> = {
  [Name in keyof Operations]: { name: Name; input: InputOf<Operations[Name]>; now: number };
}[keyof Operations];

/** An operation of whatever table. */
// biome-ignore lint/suspicious/noExplicitAny: only its table knows the type of its input
export type AnyOperation = { name: PropertyKey; input: any; now: number };

/** Any set of operations by name. */
// biome-ignore lint/suspicious/noExplicitAny: each operation knows its own input; the table does not
export type OperationTable = Record<string, (input: any, now: number) => unknown>;

export type InputOf<Operation> = Operation extends (...parameters: infer P) => unknown ? P[0] : never;
