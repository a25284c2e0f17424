import { randomUUID } from "node:crypto";
import { RESERVED_JOBS } from "../../../../src/store/modules/modules.ts";
import type { Row } from "./tables.ts";
import { arrayOf, isIn, jsonRows, type Statements, zipped } from "./values.ts";

const RESET = { progress_percent: null, progress_text: null };
const CHANGED = [
  ...["state", "visible_at", "forgiven", "lease_token", "subscriber", "claimed_at", "history"],
  ...["progress_percent", "progress_text", "dead_at", "dead_reason", "charge_so_far"],
];

/** Returns the columns of a row. */
function only(row: Row, columns: readonly string[]): Row {
  return Object.fromEntries(columns.map((column) => [column, row[column] ?? null]));
}

/** Leases rows that a claim has locked, and returns those whose attempts are used up as they are. */
async function take(
  tx: Parameters<Statements[string]>[0],
  found: readonly Row[],
  [, now, visible_at, maxAttempts, subscriber]: readonly unknown[],
): Promise<Row[]> {
  const bodies = new Map(tx.rows("job_bodies").map((row) => [row.call_id, row.encoded]));
  const rows: Row[] = [];
  for (const row of found) {
    const { call_id, attempts, forgiven, state } = row;
    if (state === "ready" && attempts - forgiven >= Number(maxAttempts)) {
      rows.push({ call_id, fate: "used_up", used_up: row });
      continue;
    }
    const lease = { state: "leased", attempts: attempts + 1, visible_at, subscriber, claimed_at: now };
    const lease_token = randomUUID();
    const leased = (
      await tx.update("job_calls", isIn("call_id", [call_id]), (held) => ({
        ...held,
        ...lease,
        ...RESET,
        lease_token,
      }))
    )[0];
    const encoded = bodies.get(call_id);
    if (leased !== undefined && encoded !== undefined) rows.push({ ...leased, fate: "leased", encoded });
  }
  return rows;
}

const MORE = { call_id: null, fate: "more" };

function reservedJobs(tx: Parameters<Statements[string]>[0]): string[] {
  return RESERVED_JOBS === undefined ? [] : tx.rows(RESERVED_JOBS.name).map(({ job_id }) => String(job_id));
}

/** Returns a function that reports whether a job is reserved, and not for a claim that reserves jobs. */
function reservedIn(tx: Parameters<Statements[string]>[0], reserves: unknown) {
  const reserved = reservedJobs(tx);
  return (jobId: string) => reserves !== true && reserved.includes(jobId);
}

/**
 * Returns the statement that claims the JobCalls of the jobs which a list of the statement selects.
 * @param reserves place of the parameter that says whether the claim reserves jobs
 */
function claimWhere(
  isSelected: (jobId: string, listed: readonly string[]) => boolean,
  reserves: number,
  mostOf: (jobId: string) => number = () => Number.POSITIVE_INFINITY,
): Statements[string] {
  return async (tx, values, text) => {
    const [limit, width, listed] = [Number(values[0]), Number(values[6]), values[5] as string[]];
    const isReserved = reservedIn(tx, values[reserves]);
    const ready = ({ state, job_id }: Row) =>
      state === "ready" && isSelected(job_id, listed) && !isReserved(job_id);
    const ofJobs = new Map<string, number>();
    const near = tx
      .rows("job_calls")
      .filter(ready)
      .sort((a, b) => a.call_id - b.call_id)
      .filter(({ job_id }) => {
        const place = (ofJobs.get(job_id) ?? 0) + 1;
        ofJobs.set(job_id, place);
        return place <= mostOf(job_id);
      })
      .map(({ call_id }) => Number(call_id))
      .slice(0, width);
    const fits = (row: Row) => ready(row) && near.includes(row.call_id);
    const found = await tx.lock("job_calls", fits, { by: "call_id", limit, text });
    const rows = await take(tx, found, values);
    return found.length < limit && near.length === width ? [...rows, MORE] : rows;
  };
}

/** Statements on JobCalls. */
export const CALL_STATEMENTS: Statements = {
  take_call_ids: (tx, [count]) => [
    { call_ids: Array.from({ length: Number(count) }, () => tx.nextCallId()).join() },
  ],
  lock_calls: (tx, [callIds], text) =>
    tx.lock("job_calls", isIn("call_id", arrayOf(callIds)), { by: "call_id", text }),
  lock_due: (tx, [now, maxAttempts], text) => {
    const isDue = ({ state, visible_at, subscriber, attempts, forgiven }: Row) =>
      visible_at <= Number(now ?? tx.startedAt) &&
      (state === "leased" ||
        (state === "delayed" && (subscriber === null || attempts - forgiven >= Number(maxAttempts))));
    return tx.lock("job_calls", isDue, { by: "visible_at", text });
  },
  find_leases: (tx, [now, callIds]) =>
    tx
      .rows("job_calls")
      .filter(isIn("call_id", callIds as number[]))
      .map((row) => ({ ...row, now })),
  update_calls: async (tx, [json]) => {
    for (const next of jsonRows(json))
      await tx.update("job_calls", isIn("call_id", [next.call_id]), (row) => ({
        ...row,
        ...only(next, CHANGED),
      }));
    return [];
  },
  make_ready: async (tx, [callIds]) => {
    const isHeld = (row: Row) => isIn("call_id", arrayOf(callIds))(row) && row.state === "held";
    await tx.update("job_calls", isHeld, (row) => ({ ...row, state: "ready" }));
    return [];
  },
  first_waiting: (tx, [orderKeys]) =>
    Promise.resolve(
      (orderKeys as string[]).map((order_key) => {
        const waiting = tx
          .rows("job_calls")
          .filter((row) => row.state === "held" && row.order_key === order_key)
          .map(({ call_id }) => Number(call_id));
        return { order_key, call_id: waiting.length === 0 ? null : Math.min(...waiting) };
      }),
    ),
  finish_calls: async (tx, [ids, now, bytes, ...more]) => {
    const [resultIds, starts, lengths, contentTypes, charges, answers, failed] = more;
    const calls = await tx.delete("job_calls", isIn("call_id", arrayOf(ids)));
    const bodies = await tx.delete("job_bodies", isIn("call_id", arrayOf(ids)));
    const results = zipped(
      ["call_id", "start", "length", "content_type"],
      [...[arrayOf(resultIds), arrayOf(starts), arrayOf(lengths)], contentTypes as unknown[]],
    );
    for (const call of calls) {
      const { call_id, origin, enqueued_at, dead_at, dead_reason: reason } = call;
      const {
        status = null,
        headers,
        storedBytes: stored_bytes = null,
      } = (JSON.parse(String(answers)) as Row)[call_id] ?? {};
      const state = arrayOf(failed).includes(call_id) ? "failed" : "succeeded";
      const ended = { call_id, state, enqueued_at, finished_at: dead_at ?? now, reason };
      const body = bodies.find((row) => row.call_id === call_id);
      const head = body?.encoded.subarray(0, body.head_bytes) ?? null;
      const { job_id, service_id, attempts, subscriber, claimed_at, history } = call;
      const more = { origin, job_id, service_id, attempts, subscriber, claimed_at, history, head, status };
      await tx.insertNew("finished_calls", { ...ended, ...more });
      if (origin !== "x402") continue;
      const result = results.find((row) => row.call_id === call_id);
      const charge = (JSON.parse(String(charges)) as Row)[call_id] ?? null;
      const answer =
        result === undefined
          ? { body: null, content_type: null }
          : { body: stored_bytes === null ? part(bytes, result) : null, content_type: result.content_type };
      const sent = { status, stored_bytes, headers: headers === undefined ? null : JSON.stringify(headers) };
      await tx.insertNew("results", { ...ended, attempt: attempts, charge, ...answer, ...sent });
    }
    return [];
  },
  add_chunks: async (tx, [bytes, ...columns]) => {
    const names = ["call_id", "attempt", "place", "start", "length"];
    for (const { start, length, ...chunk } of zipped(names, columns.map(arrayOf))) {
      const row = { ...chunk, bytes: part(bytes, { start, length }) };
      await tx.upsert("result_chunks", row, () => row);
    }
    return [];
  },
  insert_calls: async (tx, [ids, origins, jobIds, serviceIds, jobs, state, enqueued_at]) => {
    for (const { call_id, job } of zipped(["call_id", "job"], [arrayOf(ids), arrayOf(jobs)])) {
      const [origin, job_id, service_id] = [origins, jobIds, serviceIds].map(
        (all) => (all as unknown[])[job - 1],
      );
      await tx.insertNew("job_calls", { call_id, origin, job_id, service_id, state, enqueued_at });
    }
    return [];
  },
  insert_ordered_calls: async (
    tx,
    [ids, origins, jobIds, serviceIds, jobs, states, orderKeys, enqueued_at],
  ) => {
    const columns = [arrayOf(ids), arrayOf(jobs), states as unknown[], orderKeys as unknown[]];
    for (const { job, ...row } of zipped(["call_id", "job", "state", "order_key"], columns)) {
      const [origin, job_id, service_id] = [origins, jobIds, serviceIds].map(
        (all) => (all as unknown[])[job - 1],
      );
      await tx.insertNew("job_calls", { ...row, origin, job_id, service_id, enqueued_at });
    }
    return [];
  },
  insert_bodies: async (tx, [ids, bytes, ...places]) => {
    const names = ["call_id", "start", "length", "head_bytes"];
    for (const { call_id, head_bytes, ...place } of zipped(names, [ids, ...places].map(arrayOf)))
      await tx.insertNew("job_bodies", { call_id, head_bytes, encoded: part(bytes, place) });
    return [];
  },

  claim_any: async (tx, values, text) => {
    const limit = Number(values[0]);
    const options = { by: "call_id", limit, text };
    if (reservedJobs(tx).length > 0) return [MORE];
    return take(tx, await tx.lock("job_calls", ({ state }) => state === "ready", options), values);
  },
  claim_of_jobs: claimWhere((jobId, jobIds) => jobIds.includes(jobId), 7),
  claim_all_but: claimWhere((jobId, except) => !except.includes(jobId), 7),
  claim_limited: (tx, values, text) => {
    const [isListed, names, left] = [values[7], values[8] as string[], arrayOf(values[9])];
    return claimWhere(
      (jobId, listed) => listed.includes(jobId) === isListed,
      10,
      (jobId) => left[names.indexOf(jobId)] ?? Number.POSITIVE_INFINITY,
    )(tx, values, text);
  },
  count_out: (tx, [jobIds]) => {
    const out = tx
      .rows("job_calls")
      .filter((row) => row.state === "leased" && row.limited === 1)
      .map(({ job_id }) => String(job_id));
    return Promise.resolve(
      [...new Set(out)]
        .filter((job_id) => (jobIds as string[]).includes(job_id))
        .map((job_id) => ({ job_id, out: out.filter((one) => one === job_id).length })),
    );
  },
  mark_limited: (tx, [callIds, jobIds]) => {
    const isMarked = (row: Row) =>
      isIn("call_id", arrayOf(callIds))(row) && (jobIds as string[]).includes(row.job_id);
    return tx.update("job_calls", isMarked, (row) => ({ ...row, limited: 1 }));
  },
  claim_suspects: async (tx, values, text) => {
    const [limit, now, , maxAttempts, , jobIds, except] = values as [
      number,
      number,
      number,
      number,
      string,
      string[],
      string[],
    ];
    const isReserved = reservedIn(tx, values[7]);
    const fits = (row: Row) =>
      !isReserved(row.job_id) &&
      row.state === "delayed" &&
      row.visible_at <= now &&
      row.subscriber !== null &&
      row.attempts - row.forgiven < maxAttempts &&
      (jobIds.length === 0 || jobIds.includes(row.job_id)) &&
      !except.includes(row.job_id);
    const count = tx.rows("job_calls").filter(fits).length;
    const rows = await take(tx, await tx.lock("job_calls", fits, { by: "visible_at", limit, text }), values);
    return count > limit ? [...rows, MORE] : rows;
  },

  select_deliveries: (tx, [keys]) => tx.rows("deliveries").filter(isIn("key", keys as string[])),
  forget_deliveries: (tx, [now, count], text) => {
    const isOver = ({ expires_at }: Row) => expires_at <= Number(now);
    return tx.delete("deliveries", isOver, { limit: Number(count) * 10, text });
  },
  remember_new_deliveries: async (tx, [json, now]) => {
    const written: Row[] = [];
    for (const row of jsonRows(json, ["key"])) {
      const isOver = ({ expires_at }: Row) => expires_at <= Number(now);
      const kept = await tx.upsert("deliveries", row, () => row, isOver);
      if (kept !== undefined) written.push(kept);
    }
    return written;
  },
  remember_latest_deliveries: async (tx, [json]) => {
    for (const row of jsonRows(json, ["key"])) await tx.upsert("deliveries", row, () => row);
    return [];
  },
};

/** Copies the bytes of one of several packed arrays. */
function part(bytes: unknown, { start, length }: Row): Buffer {
  return Buffer.from((bytes as Buffer).subarray(start - 1, start - 1 + length));
}
