import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { StoreModule } from "../../../store/module.ts";

/** JobCalls as they were accepted. */
export interface AcceptedCalls {
  /**
   * Reads the bytes of a JobCall that were stored at its acceptance.
   * @returns undefined if they are not kept: the JobCall is done, was dropped, or never was
   */
  findAccepted(callId: number): Promise<Uint8Array | undefined>;
}

/** Reads the JobCalls that the core keeps. */
export const ACCEPTED_CALLS: StoreModule<AcceptedCalls> = {
  forOperator: ["findAccepted"],
  lookups: {
    *findAccepted({ dialect }, callId): Lookup<Uint8Array | undefined> {
      const { values, add } = parameters(dialect);
      // A body is kept for some payments without a JobCall.
      const sql = `SELECT encoded FROM ${dialect.schema}job_bodies JOIN ${dialect.schema}job_calls USING (call_id)
          WHERE call_id = ${add(callId)} AND state <> 'held'`;
      const [row] = (yield { sql, values }) as { readonly encoded: Uint8Array }[];
      return row?.encoded;
    },
  },
};
