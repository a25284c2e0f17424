import { LeaseSteps } from "../../machine/leases.ts";
import type { Capacity } from "../../new-call.ts";
import type { ReadName, WriteName } from "../../operations.ts";
import type { Database } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import { SqliteCallRows } from "./call-rows.ts";
import { claimOperations } from "./claims.ts";
import { SqliteEffects } from "./effects.ts";
import { acceptOnceInBulk, intakeOperations } from "./intake.ts";
import { JobCalls } from "./job-calls.ts";
import { ackInBulk, leaseOperations } from "./leases.ts";
import { Locks } from "./locks.ts";
import { callLookups, paymentLookups } from "./lookups.ts";
import { SqliteRows } from "./module-rows.ts";
import { lookupOperations, stepOperations } from "./modules.ts";
import { NewCalls } from "./new-calls.ts";
import { SqlitePaymentRows } from "./payment-rows.ts";
import { paymentOperations } from "./payments.ts";
import { reportOperations } from "./reports.ts";
import { retentionOperations } from "./retention.ts";
import type { Undecided } from "./undecided.ts";

/** Operations of the one connection that writes. */
export function writeOperations(
  database: Database,
  capacity: Capacity,
  undecided: Undecided,
): {
  readonly operations: OperationTable<WriteName>;
  readonly bulk: BulkTable;
  readonly newCalls: NewCalls;
  readonly effects: SqliteEffects;
} {
  const newCalls = new NewCalls(database);
  const rows = new SqliteRows(database);
  const locks = new Locks();
  const paymentRows = new SqlitePaymentRows(database, capacity, undecided);
  const effects = new SqliteEffects(database, { paymentRows, rows, locks });
  const jobCalls = new JobCalls(database, capacity, newCalls, effects);
  const callRows = new SqliteCallRows(database, (callId) => jobCalls.drop(callId));
  const leaseSteps = new LeaseSteps(callRows, capacity, effects);
  const bulk = {
    acceptOnce: acceptOnceInBulk(database, jobCalls),
    ack: ackInBulk(database, jobCalls),
  };
  const probe = database.prepare("UPDATE probe SET writes = writes + 1");
  const operations = {
    ...intakeOperations(database, jobCalls),
    ...paymentOperations(database, { jobCalls, undecided, effects }),
    ...claimOperations(database, callRows, leaseSteps, newCalls),
    ...leaseOperations(leaseSteps, bulk.ack),
    ...retentionOperations(database),
    ...stepOperations(effects),
    holdLock: locks.holdLock.bind(locks),
    probe: () => void probe.run([]),
  };
  return { operations, bulk, newCalls, effects };
}

/** Operations of the connection that only reads. */
export function readOperations(database: Database): OperationTable<ReadName> {
  return {
    ...paymentLookups(database),
    ...callLookups(database),
    ...reportOperations(database),
    ...lookupOperations(database),
  };
}
