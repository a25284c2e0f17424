import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { StoreModule } from "../../../store/module.ts";

/** Bodies of JobCalls, for operators. */
export interface BodyLookup {
  /**
   * Reads the beginning of a JobCall's body.
   * @param most bytes that are read
   * @returns undefined if the body is not kept, because the JobCall is done or does not exist
   */
  findBody(callId: number, most: number): Promise<ReadBody | undefined>;
}

/** The beginning of a body. */
export interface ReadBody {
  readonly bytes: Uint8Array;
  /** Bytes of the whole body. */
  readonly size: number;
}

/** Reads the bodies that the core keeps. */
export const BODIES: StoreModule<BodyLookup> = {
  forOperator: ["findBody"],
  lookups: {
    *findBody({ dialect }, callId, most): Lookup<ReadBody | undefined> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT length(encoded) - head_bytes AS size, substr(encoded, head_bytes + 1, ${Math.floor(most)}) AS bytes
          FROM ${dialect.schema}job_bodies WHERE call_id = ${add(callId)}`;
      const [row] = (yield { sql, values }) as { readonly size: number; readonly bytes: Uint8Array | null }[];
      // SQLite's substr() makes NULL of an empty BLOB.
      return row && { size: row.size, bytes: row.bytes ?? new Uint8Array() };
    },
  },
};
