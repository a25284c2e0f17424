import type { AcceptOutcome, Delivery } from "../../contract/intake.ts";
import type { NewCall } from "../../new-call.ts";
import { type KnownDelivery, repeatOf } from "../../rules/repeated-deliveries.ts";
import type { Database } from "../driver.ts";
import type { BulkTable, OperationTable } from "../transaction.ts";
import type { JobCalls } from "./job-calls.ts";

/** Expired delivery keys that are deleted with each delivery: more than it adds, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 10;
const FORGET_EXPIRED =
  "DELETE FROM deliveries WHERE key IN (SELECT key FROM deliveries WHERE expires_at <= ? LIMIT ?)";

export function intakeOperations(
  database: Database,
  jobCalls: JobCalls,
): OperationTable<"accept" | "acceptOnce"> {
  const select = database.prepare<KnownDelivery>(
    "SELECT body_hash, call_id FROM deliveries WHERE key = ? AND expires_at > ?",
  );
  const upsert = database.prepare("INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?)");
  const forgetExpired = database.prepare(FORGET_EXPIRED);

  function accept(now: number, call: NewCall): AcceptOutcome {
    if (!jobCalls.hasRoom()) return { kind: "queue_full" };
    return { kind: "accepted", callId: jobCalls.add(call, "ready", now) };
  }

  return {
    accept,
    acceptOnce(now, call, delivery) {
      const repeat = repeatOf(delivery, (key) => select.get([key, now]));
      if (repeat !== undefined) return repeat;
      const outcome = accept(now, call);
      if (outcome.kind !== "accepted") return outcome;
      forgetExpired.run([now, FORGOTTEN_AT_ONCE]);
      for (const { key } of delivery.keys) {
        upsert.run([key, delivery.bodyHash, outcome.callId, now + delivery.windowMs]);
      }
      return outcome;
    },
  };
}

interface AcceptOnce {
  readonly now: number;
  readonly input: readonly [call: NewCall, delivery: Delivery];
}

export function acceptOnceInBulk(
  database: Database,
  jobCalls: JobCalls,
): NonNullable<BulkTable["acceptOnce"]> {
  const select = database.prepare<KnownDelivery & { readonly key: string; readonly expires_at: number }>(
    `SELECT key, body_hash, call_id, expires_at FROM deliveries
      WHERE key IN (SELECT value FROM json_each(?))`,
  );
  const upsert = database.prepare(
    `INSERT OR REPLACE INTO deliveries (key, body_hash, call_id, expires_at)
     SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)`,
  );
  const forgetExpired = database.prepare(FORGET_EXPIRED);

  function remember(accepted: readonly AcceptOnce[], callIds: readonly number[]): void {
    forgetExpired.run([accepted.at(-1)?.now ?? 0, FORGOTTEN_AT_ONCE * accepted.length]);
    const rows = accepted.flatMap(({ now, input: [, { keys, bodyHash, windowMs }] }, index) =>
      keys.map(({ key }) => [key, bodyHash, callIds[index], now + windowMs]),
    );
    upsert.run([JSON.stringify(rows)]);
  }

  return (operations) =>
    withoutRepeats(operations).flatMap((run) => {
      const rows = select.all([JSON.stringify(run.flatMap(identifyingKeys))]);
      const known = new Map(rows.map((row) => [row.key, row]));
      const repeats = run.map(({ now, input: [, delivery] }) =>
        repeatOf(delivery, (key) => {
          const row = known.get(key);
          return row !== undefined && row.expires_at > now ? row : undefined;
        }),
      );
      const accepted = run.filter((_, index) => repeats[index] === undefined).slice(0, jobCalls.room());
      const callIds = accepted.map(({ now, input: [call] }) => jobCalls.add(call, "ready", now));
      if (accepted.length > 0) remember(accepted, callIds);
      const callIdOf = new Map(accepted.map((operation, index) => [operation, callIds[index]]));
      return run.map((operation, index) => {
        const callId = callIdOf.get(operation);
        return (
          repeats[index] ?? (callId === undefined ? { kind: "queue_full" } : { kind: "accepted", callId })
        );
      });
    });
}

/** Cuts a list before each delivery that may repeat one since the last cut. */
function withoutRepeats(operations: readonly AcceptOnce[]): AcceptOnce[][] {
  const runs: AcceptOnce[][] = [];
  const keysOfRun = new Set<string>();
  for (const operation of operations) {
    const mayRepeat = identifyingKeys(operation).some((key) => keysOfRun.has(key));
    if (mayRepeat) keysOfRun.clear();
    for (const { key } of operation.input[1].keys) keysOfRun.add(key);
    if (mayRepeat || runs.length === 0) runs.push([operation]);
    else runs.at(-1)?.push(operation);
  }
  return runs;
}

function identifyingKeys({ input: [, { keys }] }: AcceptOnce): string[] {
  return keys.flatMap(({ key, identifies }) => (identifies ? [key] : []));
}
