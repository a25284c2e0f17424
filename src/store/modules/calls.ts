import { RESULT_CHUNK_BYTES } from "../../core/job-call.ts";
import { oneSpelling } from "../../core/payment.ts";
import {
  type DeadLetterRow,
  PAYMENT_OF_CALL,
  type PaidCallRow,
  shownRows,
  toCallState,
  toDeadLetter,
} from "../call-row.ts";
import {
  type CallLookup,
  type CallState,
  MAX_BOUGHT,
  NOT_KEPT,
  type StoredResult,
} from "../contract/call-lookup.ts";
import type { DeadLetter, DeadLetterBox } from "../contract/dead-letter-box.ts";
import type { CalledJob, JobResult, WorkQueue } from "../contract/work-queue.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { JUST_DUE_MS } from "../rules/leases.ts";

const KEY_OF_PAYMENT = "payments.network, payments.asset, payments.payer, nonce";

/** Number of a payer's payments that are searched for a request. It bounds the work of a query. */
const MAX_SEARCHED = 10_000;

/** JobCalls, for runners, clients and operators. */
export const CALLS = {
  forOperator: ["resultBytes", "findDeadLetter"],
  lookups: {
    *ceilings({ dialect }, callIds): Lookup<(string | null | undefined)[]> {
      if (callIds.length === 0) return [];
      const { values, add } = parameters(dialect);
      const { schema } = dialect;
      const sql = `SELECT job_calls.call_id, CASE WHEN charge <> 'after' THEN job_calls.ceiling END AS ceiling
          FROM ${schema}job_calls LEFT JOIN ${schema}payments ON payments.call_id = job_calls.call_id
         WHERE origin <> 'operator' AND job_calls.call_id IN (${callIds.map(add).join()})`;
      const rows = (yield { sql, values }) as { readonly call_id: number; readonly ceiling: string | null }[];
      const known = new Map(rows.map(({ call_id, ceiling }) => [call_id, ceiling]));
      return callIds.map((callId) => known.get(callId));
    },

    *resultBytes({ dialect: { schema } }): Lookup<number> {
      const sql = `SELECT CAST(COALESCE(sum(COALESCE(stored_bytes, length(body))), 0) AS bigint) AS n FROM ${schema}results`;
      const [row] = (yield { name: "result_bytes", sql, values: [] }) as { readonly n: number }[];
      return row?.n ?? 0;
    },

    *nextDueMs({ dialect, now }): Lookup<number | undefined> {
      const { values, add } = parameters(dialect);
      const time = dialect.now(add(now()));
      const sql = `SELECT min(visible_at) - ${time} AS due_in
          FROM ${dialect.schema}job_calls${dialect.indexedBy("job_calls_waiting")}
         WHERE state IN ('leased', 'delayed')
           AND (state = 'leased' OR subscriber IS NULL OR visible_at > ${time} - ${JUST_DUE_MS})`;
      const [row] = (yield { name: "next_due", sql, values }) as { readonly due_in: number | null }[];
      return row?.due_in ?? undefined;
    },

    *listBought({ dialect, now }, request, withinMs): Lookup<readonly number[]> {
      const { values, add } = parameters(dialect);
      const table = `${dialect.schema}payments${dialect.indexedBy("payments_by_payer")}`;
      const columns = "call_id, network, service_id, job_index, bound_headers, body_hash, state, created_at";
      const newest = `SELECT ${columns} FROM ${table} WHERE payer = ${add(oneSpelling(request.payer))}
        ORDER BY call_id DESC LIMIT ${MAX_SEARCHED}`;
      const { network } = request;
      const isThere = network === undefined ? "" : `network = ${add(network)} AND `;
      const sql = `SELECT call_id FROM (${newest}) AS payment
        WHERE ${isThere}service_id = ${add(String(request.serviceId))}
          AND job_index = ${add(request.jobIndex)} AND bound_headers IS NOT NULL AND body_hash = ${add(request.bodyHash)}
          AND state = 'settled' AND created_at > ${dialect.now(add(now()))} - ${add(withinMs)}
        ORDER BY call_id DESC LIMIT ${MAX_BOUGHT}`;
      const rows = (yield {
        name: network === undefined ? "list_bought" : "list_bought_on_network",
        sql,
        values,
      }) as { readonly call_id: number }[];
      return rows.map(({ call_id }) => call_id);
    },

    *findCall({ dialect, now }, callId): Lookup<CallState | undefined> {
      const { values, add } = parameters(dialect);
      const { schema } = dialect;
      const [id, time] = [add(callId), dialect.now(add(now()))];
      const ofCall = `${shownRows(schema)} WHERE payments.call_id = ${id}`;
      const sql = `
        SELECT ${KEY_OF_PAYMENT}, job_calls.state, visible_at, attempts AS attempt, progress_percent, progress_text,
               dead_reason AS reason, enqueued_at, dead_at AS finished_at, NULL AS status, ${PAYMENT_OF_CALL}, ${time} AS now
          FROM ${schema}payments JOIN ${schema}job_calls ON job_calls.call_id = payments.call_id ${ofCall}
         UNION ALL
        SELECT ${KEY_OF_PAYMENT}, results.state, NULL, results.attempt, NULL, NULL,
               results.reason, enqueued_at, finished_at, results.status, ${PAYMENT_OF_CALL}, ${time}
          FROM ${schema}payments JOIN ${schema}results ON results.call_id = payments.call_id ${ofCall}
         UNION ALL
        SELECT ${KEY_OF_PAYMENT}, 'expired', NULL, 0, NULL, NULL,
               NULL, payments.created_at, NULL, NULL, ${PAYMENT_OF_CALL}, ${time}
          FROM ${schema}payments ${ofCall} AND payments.state IN ('settled', 'released')
           AND NOT EXISTS (SELECT 1 FROM ${schema}job_calls WHERE call_id = ${id})
           AND NOT EXISTS (SELECT 1 FROM ${schema}results WHERE call_id = ${id})
         LIMIT 1`;
      const [row] = (yield { name: "find_call", sql, values }) as (PaidCallRow & { readonly now: number })[];
      return row && toCallState(callId, row, row.now);
    },

    *jobsOf({ dialect }, callIds): Lookup<(CalledJob | undefined)[]> {
      if (callIds.length === 0) return [];
      const { values, add } = parameters(dialect);
      const sql = `SELECT call_id, origin, service_id, job_id FROM ${dialect.schema}job_calls
        WHERE call_id IN (${callIds.map(add).join()})`;
      const rows = (yield { sql, values }) as Pick<
        DeadLetterRow,
        "call_id" | "origin" | "service_id" | "job_id"
      >[];
      const known = new Map(
        rows.map(({ call_id, origin, service_id, job_id }) => [
          call_id,
          { origin, serviceId: BigInt(service_id), jobId: BigInt(job_id) },
        ]),
      );
      return callIds.map((callId) => known.get(callId));
    },

    *findResult({ dialect }, callId): Lookup<StoredResult | typeof NOT_KEPT | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT CASE WHEN length(body) <= ${RESULT_CHUNK_BYTES} THEN body END AS body,
                          COALESCE(length(body), stored_bytes) AS size, content_type, status, headers
          FROM ${dialect.schema}results WHERE call_id = ${add(callId)} AND content_type IS NOT NULL`;
      const [row] = (yield { name: "find_result", sql, values }) as {
        readonly body: Uint8Array | null;
        readonly size: number | null;
        readonly content_type: string;
        readonly status: number | null;
        readonly headers: string | null;
      }[];
      if (row === undefined) return undefined;
      const { body, size, content_type: contentType, status, headers } = row;
      if (size === null) return NOT_KEPT;
      return {
        size,
        body: body ?? undefined,
        contentType,
        status: status ?? undefined,
        headers: headers === null ? undefined : (JSON.parse(headers) as JobResult["headers"]),
      };
    },

    *readResult({ dialect }, callId, offset, length): Lookup<Uint8Array | undefined> {
      const { values, add } = parameters(dialect);
      const { schema } = dialect;
      const [id, within] = [add(callId), offset % RESULT_CHUNK_BYTES];
      const place = add((offset - within) / RESULT_CHUNK_BYTES);
      const size = Math.min(length, RESULT_CHUNK_BYTES - within);
      const sql = `SELECT substr(bytes, ${within + 1}, ${size}) AS bytes
          FROM ${schema}result_chunks JOIN ${schema}results USING (call_id, attempt)
         WHERE call_id = ${id} AND place = ${place} AND stored_bytes IS NOT NULL
         UNION ALL
        SELECT substr(body, ${offset + 1}, ${size}) FROM ${schema}results WHERE call_id = ${id} AND body IS NOT NULL`;
      const [row] = (yield { sql, values }) as { readonly bytes: Uint8Array | null }[];
      // SQLite's substr() makes NULL of an empty BLOB.
      return row && (row.bytes ?? new Uint8Array());
    },

    *findDeadLetter(
      { dialect },
      callId,
    ): Lookup<(DeadLetter & { readonly encoded: Uint8Array }) | undefined> {
      const { values, add } = parameters(dialect);
      const { schema } = dialect;
      const sql = `SELECT call_id, origin, job_id, service_id, attempts, dead_reason, enqueued_at, dead_at, encoded
          FROM ${schema}job_calls JOIN ${schema}job_bodies USING (call_id)
         WHERE call_id = ${add(callId)} AND state = 'dead'`;
      const [row] = (yield { name: "find_dead_letter", sql, values }) as (DeadLetterRow & {
        encoded: Uint8Array;
      })[];
      return row && { ...toDeadLetter(row), encoded: row.encoded };
    },
  },
} satisfies StoreModule<WorkQueue & CallLookup & DeadLetterBox>;
