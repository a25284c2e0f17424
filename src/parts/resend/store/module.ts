import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { StoreModule } from "../../../store/module.ts";

/** JobCalls as they were accepted. */
export interface AcceptedCalls {
  /**
   * Reads the bytes of a JobCall that were stored at its acceptance.
   * @returns undefined if they are not kept, because the JobCall is done, was dropped, or never existed
   */
  findAccepted(callId: number): Promise<Uint8Array | undefined>;
  /**
   * Finds the JobCall that a key made, and the JobCall that was resent. @returns undefined for a key that is new, or
   * forgotten
   */
  findResent(key: string): Promise<{ readonly callId: number; readonly resent: string } | undefined>;
}

/** Reads the JobCalls that the core keeps. */
export const ACCEPTED_CALLS: StoreModule<AcceptedCalls> = {
  forOperator: ["findAccepted", "findResent"],
  lookups: {
    *findAccepted({ dialect }, callId): Lookup<Uint8Array | undefined> {
      const { values, add } = parameters(dialect);
      // A body is kept for some payments without a JobCall.
      const sql = `SELECT encoded FROM ${dialect.schema}job_bodies JOIN ${dialect.schema}job_calls USING (call_id)
          WHERE call_id = ${add(callId)} AND (state <> 'held' OR origin = 'webhook')`;
      const [row] = (yield { sql, values }) as { readonly encoded: Uint8Array }[];
      return row?.encoded;
    },

    *findResent({ dialect, now }, key): Lookup<{ callId: number; resent: string } | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT call_id, body_hash FROM ${dialect.schema}deliveries
          WHERE key = ${add(key)} AND expires_at > ${dialect.now(add(now()))}`;
      const [row] = (yield { sql, values }) as { readonly call_id: number; readonly body_hash: string }[];
      return row && { callId: row.call_id, resent: row.body_hash };
    },
  },
};
