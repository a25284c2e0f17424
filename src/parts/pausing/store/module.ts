import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { SchemaDialect, StoreModule } from "../../../store/module.ts";
import { keyIn, type Table } from "../../../store/rows.ts";
import type { Pause, PauseLedger } from "./ledger.ts";

interface PauseRow {
  readonly kind: string;
  readonly key: string;
  /** JSON array of decimals. */
  readonly job_ids: string;
  readonly refuses_accepts: number;
  readonly decided_by: string;
  readonly note: string;
  /** The value is null after a resume. */
  readonly since: number | null;
}

const TABLE: Table<PauseRow, "kind" | "key"> = {
  name: "pauses",
  key: ["kind", "key"],
  columns: ["kind", "key", "job_ids", "refuses_accepts", "decided_by", "note", "since"],
};

const pausesSchema = ({ schema, integer, small }: SchemaDialect): string => `
-- Pauses of operators. A row stays after a resume.
CREATE TABLE ${schema}pauses (
  kind            TEXT NOT NULL,
  key             TEXT NOT NULL,
  job_ids         TEXT NOT NULL,
  refuses_accepts ${integer} NOT NULL,
  decided_by      TEXT NOT NULL,
  note            TEXT NOT NULL,
  since           ${integer},
  PRIMARY KEY (kind, key)
)${small};
`;

/** Pauses of jobs, webhook endpoints and APIs. */
export const PAUSES: StoreModule<PauseLedger> = {
  schema: { table: TABLE.name, sql: pausesSchema },

  steps: {
    savePause: {
      keys: ({ kind, key }) => [keyIn(TABLE, { kind, key })],
      run({ rows }, now, { kind, key, jobIds, refusesAccepts, by, note }) {
        const row = {
          ...{ kind, key, note },
          job_ids: JSON.stringify(jobIds.map(String)),
          refuses_accepts: refusesAccepts ? 1 : 0,
          decided_by: by,
          since: rows.find(TABLE, { kind, key })?.since ?? now,
        };
        rows.put(TABLE, row);
        return toPause(row);
      },
    },

    endPause: {
      keys: ({ kind, key }) => [keyIn(TABLE, { kind, key })],
      run({ rows }, _now, { kind, key }) {
        const row = rows.find(TABLE, { kind, key });
        if (!isPaused(row)) return undefined;
        rows.put(TABLE, { ...row, since: null });
        return toPause(row);
      },
    },
  },

  lookups: {
    *listPauses({ dialect }): Lookup<Pause[]> {
      const { values } = parameters(dialect);
      const sql = `SELECT ${TABLE.columns.join()} FROM ${dialect.schema}pauses WHERE since IS NOT NULL ORDER BY since, kind, key`;
      return ((yield { name: "list_pauses", sql, values }) as PauseRow[]).filter(isPaused).map(toPause);
    },
  },
};

type PausedRow = PauseRow & { readonly since: number };

function isPaused(row: PauseRow | undefined): row is PausedRow {
  return row !== undefined && row.since !== null;
}

function toPause({ kind, key, job_ids, refuses_accepts, decided_by: by, note, since }: PausedRow): Pause {
  const jobIds = (JSON.parse(job_ids) as string[]).map(BigInt);
  return { kind, key, jobIds, refusesAccepts: refuses_accepts === 1, by, note, since };
}
