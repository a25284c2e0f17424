import { type NewCall, packBytes } from "../../new-call.ts";
import { type Sql, statement } from "../sql.ts";

const INSERT_CALLS = statement(
  "insert_calls",
  `INSERT INTO jobgate.job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
   SELECT call_id, origin, job_id, service_id, $5, $6
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS new (call_id, origin, job_id, service_id)`,
);

// All bytes in one parameter, which is sent as binary: in an array each would be sent as hex.
const INSERT_BODIES = statement(
  "insert_bodies",
  `INSERT INTO jobgate.job_bodies (call_id, encoded)
   SELECT call_id, substring($2::bytea FROM start FOR length)
     FROM unnest($1::bigint[], $3::int[], $4::int[]) AS new (call_id, start, length)`,
);

/** Writes JobCalls with their ids and bodies. */
export async function insertCalls(
  sql: Sql,
  rows: readonly { readonly callId: number; readonly call: NewCall }[],
  state: "held" | "ready",
  now: number,
): Promise<void> {
  if (rows.length === 0) return;
  const callIds = rows.map(({ callId }) => callId);
  const { bytes, starts, lengths } = packed(rows.map(({ call }) => call.encoded));
  await Promise.all([
    sql.run(INSERT_CALLS, [
      callIds,
      rows.map(({ call }) => call.origin),
      rows.map(({ call }) => call.jobId),
      rows.map(({ call }) => call.serviceId),
      state,
      now,
    ]),
    sql.run(INSERT_BODIES, [callIds, bytes, starts, lengths]),
  ]);
}

/** Joins byte arrays, and says where each one is: `starts` count from 1, as Postgres does. */
export function packed(arrays: readonly Uint8Array[]): {
  bytes: Buffer;
  starts: number[];
  lengths: number[];
} {
  const { buffer, views } = packBytes(arrays);
  return {
    bytes: Buffer.from(buffer),
    starts: views.map(({ byteOffset }) => byteOffset + 1),
    lengths: views.map(({ byteLength }) => byteLength),
  };
}
