import { IntakeSteps } from "../../machine/intake.ts";
import { LEASE_STEPS, LeaseSteps } from "../../machine/leases.ts";
import type { Capacity } from "../../new-call.ts";
import type { ReadName, WriteName } from "../../operations.ts";
import type { Database } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import { ackInBulk, SqliteCallRows } from "./call-rows.ts";
import { claimOperations } from "./claims.ts";
import { Locks, SqliteEffects } from "./effects.ts";
import { lookupOperations, SqliteRows, stepOperations } from "./modules.ts";
import { acceptInBulk, NewCalls, SqliteIntakeRows } from "./new-calls.ts";
import { PaymentFinder, SqlitePaymentRows, type Undecided } from "./payment-rows.ts";
import { beginInBulk, paymentOperations } from "./payments.ts";
import { pruneOperations } from "./prune.ts";

type BulkName = "ack" | "accept" | "acceptOnce" | "beginPayment";

/** Operations of the one connection that writes. */
export function writeOperations(
  database: Database,
  capacity: Capacity,
  undecided: Undecided,
): {
  readonly operations: OperationTable<Exclude<WriteName, BulkName>>;
  readonly bulk: BulkTable<BulkName>;
  readonly newCalls: NewCalls;
  readonly effects: SqliteEffects;
} {
  const newCalls = new NewCalls(database);
  const rows = new SqliteRows(database);
  const locks = new Locks();
  const paymentRows = new SqlitePaymentRows(database, capacity, undecided);
  const effects = new SqliteEffects(database, { paymentRows, rows, locks, newCalls });
  const callRows = new SqliteCallRows(database);
  const leaseSteps = new LeaseSteps(callRows, capacity, effects);
  const intakeRows = new SqliteIntakeRows(database, newCalls);
  const intakeSteps = new IntakeSteps(intakeRows, capacity, rows);
  const payments = new PaymentFinder(database);
  const { beginPayment, ...paymentSteps } = paymentOperations(database, {
    payments,
    capacity,
    newCalls,
    undecided,
    effects,
  });
  const bulk = {
    beginPayment: beginInBulk(beginPayment, payments, effects),
    ...acceptInBulk(intakeRows, intakeSteps, rows),
    ack: ackInBulk(callRows, leaseSteps, effects),
  };
  const probe = database.prepare("UPDATE probe SET writes = writes + 1");
  const operations = {
    ...methodsOf(leaseSteps, ...LEASE_STEPS.filter((name) => name !== "ack")),
    ...paymentSteps,
    ...claimOperations(database, callRows, leaseSteps, effects, newCalls),
    ...pruneOperations(database),
    ...stepOperations(effects),
    holdLock: locks.holdLock.bind(locks),
    probe: () => void probe.run([]),
  };
  return { operations, bulk, newCalls, effects };
}

/** Returns methods as functions. */
function methodsOf<Name extends WriteName>(steps: OperationTable<Name>, ...names: Name[]) {
  const bound = names.map((name) => [name, (steps[name] as unknown as () => unknown).bind(steps)]);
  return Object.fromEntries(bound) as OperationTable<Name>;
}

/** Operations of the connection that only reads. */
export function readOperations(database: Database): OperationTable<ReadName> {
  return lookupOperations(database);
}
