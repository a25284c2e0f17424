import type { Capacity } from "../../new-call.ts";
import type { ReadName, WriteName } from "../../operations.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { claimOperations } from "./claims.ts";
import { intakeOperations } from "./intake.ts";
import { JobCalls } from "./job-calls.ts";
import { leaseOperations } from "./leases.ts";
import { ledgerLookups, ledgerOperations } from "./ledgers.ts";
import { callLookups, paymentLookups } from "./lookups.ts";
import { paymentOperations } from "./payments.ts";
import { reportOperations } from "./reports.ts";
import type { Undecided } from "./undecided.ts";

/** Operations of the one connection that writes. */
export function writeOperations(
  database: Database,
  capacity: Capacity,
  undecided: Undecided,
): OperationTable<WriteName> {
  const jobCalls = new JobCalls(database, capacity);
  const probe = database.prepare("UPDATE probe SET writes = writes + 1");
  return {
    ...intakeOperations(database, jobCalls),
    ...paymentOperations(database, jobCalls, undecided),
    ...claimOperations(database, jobCalls),
    ...leaseOperations(database, jobCalls),
    ...ledgerOperations(database),
    probe: () => void probe.run([]),
  };
}

/** Operations of the connection that only reads. */
export function readOperations(database: Database): OperationTable<ReadName> {
  return {
    ...paymentLookups(database),
    ...callLookups(database),
    ...ledgerLookups(database),
    ...reportOperations(database),
  };
}
