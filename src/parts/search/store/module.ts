import type { SchemaDialect, StoreModule } from "../../../store/module.ts";
import { keyIn, type OldRows, type Table } from "../../../store/rows.ts";
import { type SearchIndex, type SearchSource, termOf } from "./index-contract.ts";
import { entriesAfter, isGone, search } from "./queries.ts";
import { listUnindexed, transactionTerm } from "./sources.ts";

interface TermRow {
  id: number;
  kind: string;
  term: string;
  entry: number;
}

interface PositionRow {
  source: string;
  at: number;
  entry: number;
}

const TERMS: Table<TermRow, "id"> = {
  name: "search_terms",
  key: ["id"],
  columns: ["id", "kind", "term", "entry"],
};

const POSITIONS: Table<PositionRow, "source"> = {
  name: "search_positions",
  key: ["source"],
  columns: ["source", "at", "entry"],
};

/** Terms of the next entries whose rows were deleted. The parameter is the entry to continue after. */
const GONE: OldRows = {
  table: TERMS.name,
  where: ({ schema }, after) =>
    `entry IN (SELECT entry FROM (${entriesAfter(schema, after)}) AS next) AND ${isGone(schema, "search_terms")}`,
  limit: 5_000,
};

const searchSchema = ({ schema, integer, id, bytewiseText, small, plain }: SchemaDialect): string => `
-- Values by which operators find entries: their beginnings in lower case. entry is a call ID, or the ID of a refused payment.
CREATE TABLE ${schema}search_terms (
  id    ${id},
  kind  TEXT NOT NULL,
  term  ${bytewiseText} NOT NULL,
  entry ${integer} NOT NULL
)${plain};
CREATE UNIQUE INDEX search_terms_by_term ON ${schema}search_terms (kind, term, entry DESC);
CREATE INDEX search_terms_by_entry ON ${schema}search_terms (entry);

-- Rows up to which the index is filled.
CREATE TABLE ${schema}search_positions (
  source TEXT PRIMARY KEY,
  at     ${integer} NOT NULL,
  entry  ${integer} NOT NULL
)${small};
`;

const START = { at: 0, entry: 0 } as const;

/** The index that the operator's search reads. */
export const SEARCH: StoreModule<SearchIndex> = {
  schema: { table: TERMS.name, sql: searchSchema },
  forOperator: ["search"],
  // After the clock is set back, payments are settled at earlier times.
  onClockStep: `UPDATE ${POSITIONS.name} SET at = at + ?1 WHERE source = 'settled' AND ?1 < 0`,
  on: {
    // These changes add terms at once, because they do not change the time by which settled payments are indexed.
    paymentContradicted: ({ payment: { call_id, settlement } }) =>
      transactionTerm(call_id, settlement).map((row) => ({ kind: "add", table: TERMS, row })),
    moneySent({ sent: { payment, transaction_hash } }) {
      if (payment === undefined || transaction_hash === null) return [];
      const row = {
        kind: "transaction",
        term: termOf("transaction", transaction_hash),
        entry: payment.call_id,
      };
      return [{ kind: "add", table: TERMS, row }];
    },
  },

  steps: {
    addSearchTerms: {
      keys: (_terms, moved) => moved.map(({ source }) => keyIn(POSITIONS, { source })),
      run({ rows }, _now, terms, moved) {
        for (const row of terms) rows.add(TERMS, row);
        for (const { source, position } of moved) rows.put(POSITIONS, { source, ...position });
      },
    },
    forgetSearchTerms: {
      run({ rows }, _now, after) {
        rows.forget(GONE, after);
      },
    },
  },

  lookups: {
    *searchPositions({ dialect: { schema } }) {
      const sql = `SELECT source, at, entry FROM ${schema}search_positions`;
      const known = new Map<string, { at: number; entry: number }>();
      for (const { source, at, entry } of (yield { sql, values: [] }) as PositionRow[])
        known.set(source, { at, entry });
      const of = (source: SearchSource) => known.get(source) ?? START;
      return { calls: of("calls"), settled: of("settled"), refused: of("refused") };
    },
    listUnindexed,
    *findForgotten({ dialect: { schema, parameter } }, after) {
      const next = entriesAfter(schema, parameter(1));
      const sql = `SELECT next.entry, max(CASE WHEN ${isGone(schema, "term")} THEN 1 ELSE 0 END) AS is_gone
          FROM (${next}) AS next JOIN ${schema}search_terms AS term ON term.entry = next.entry
         GROUP BY next.entry ORDER BY next.entry`;
      const rows = (yield { sql, values: [after] }) as { readonly entry: number; readonly is_gone: number }[];
      return { isAnyGone: rows.some(({ is_gone }) => is_gone === 1), next: rows.at(-1)?.entry };
    },
    search,
  },
};
