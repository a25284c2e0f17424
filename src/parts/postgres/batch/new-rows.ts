import { type KeyOrder, type NewCall, packBytes } from "../../../store/new-call.ts";
import { numberArray, type Sql, statement, storable } from "../sql.ts";

// Each job's text is sent once, because the driver escapes every element of an array of texts.
const INSERT_CALLS = statement(
  "insert_calls",
  `INSERT INTO jobgate.job_calls (call_id, origin, job_id, service_id, state, enqueued_at)
   SELECT call_id, ($2::text[])[job], ($3::text[])[job], ($4::text[])[job], $6, $7
     FROM unnest($1::bigint[], $5::int[]) AS new (call_id, job)`,
);

const INSERT_ORDERED = statement(
  "insert_ordered_calls",
  `INSERT INTO jobgate.job_calls (call_id, origin, job_id, service_id, state, order_key, enqueued_at)
   SELECT call_id, ($2::text[])[job], ($3::text[])[job], ($4::text[])[job], state, order_key, $8
     FROM unnest($1::bigint[], $5::int[], $6::text[], $7::text[]) AS new (call_id, job, state, order_key)`,
);

// All bytes are in one parameter, which is sent as binary. In an array, each value would be sent as hex.
const INSERT_BODIES = statement(
  "insert_bodies",
  `INSERT INTO jobgate.job_bodies (call_id, encoded, head_bytes)
   SELECT call_id, substring($2::bytea FROM start FOR length), head_bytes
     FROM unnest($1::bigint[], $3::int[], $4::int[], $5::int[]) AS new (call_id, start, length, head_bytes)`,
);

interface NewRow {
  readonly callId: number;
  readonly call: NewCall;
}

/** Writes JobCalls with their ids and bodies. */
export async function insertCalls(
  sql: Sql,
  rows: readonly NewRow[],
  state: "held" | "ready",
  now: number,
): Promise<void> {
  if (rows.length === 0) return;
  await Promise.all([sql.run(INSERT_CALLS, [...columnsOf(rows), state, now]), insertBodies(sql, rows)]);
}

/** Writes JobCalls that have a key. */
export async function insertOrderedCalls(
  sql: Sql,
  rows: readonly (NewRow & { readonly order: KeyOrder; readonly isHeld: boolean })[],
  now: number,
): Promise<void> {
  if (rows.length === 0) return;
  const states = rows.map(({ isHeld }) => (isHeld ? "held" : "ready"));
  const orderKeys = rows.map(({ order }) => storable(order.orderKey));
  await Promise.all([
    sql.run(INSERT_ORDERED, [...columnsOf(rows), states, orderKeys, now]),
    insertBodies(sql, rows),
  ]);
}

function columnsOf(rows: readonly NewRow[]): unknown[] {
  const callIds = numberArray(rows.map(({ callId }) => callId));
  const jobs = new Map<string, { readonly call: NewCall; readonly place: number }>();
  const places = rows.map(({ call }) => {
    const key = `${call.origin} ${call.jobId} ${call.serviceId}`;
    const job = jobs.get(key) ?? { call, place: jobs.size + 1 };
    jobs.set(key, job);
    return job.place;
  });
  const distinct = [...jobs.values()].map(({ call }) => call);
  return [
    callIds,
    distinct.map(({ origin }) => origin),
    distinct.map(({ jobId }) => jobId),
    distinct.map(({ serviceId }) => serviceId),
    numberArray(places),
  ];
}

async function insertBodies(sql: Sql, rows: readonly NewRow[]): Promise<void> {
  const { bytes, starts, lengths } = packed(rows.map(({ call }) => call.encoded));
  await sql.run(INSERT_BODIES, [
    numberArray(rows.map(({ callId }) => callId)),
    bytes,
    numberArray(starts),
    numberArray(lengths),
    numberArray(rows.map(({ call }) => call.headBytes)),
  ]);
}

/** Joins byte arrays, and returns the position of each: `starts` count from 1, as Postgres does. */
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
