import type { SchemaDialect } from "../../../store/module.ts";

/** Returns the SQL of the table of movements. */
export const movementsSchema = ({ schema, integer, id, plain }: SchemaDialect): string => `
-- Every movement of money, in the order in which it became known. Rows are only added.
CREATE TABLE ${schema}movements (
  id               ${id},
  at               ${integer} NOT NULL,
  kind             TEXT NOT NULL,
  call_id          ${integer},
  service_id       TEXT,
  job_index        ${integer},
  network          TEXT NOT NULL,
  -- Absent for the network's own coin.
  asset            TEXT,
  symbol           TEXT,
  decimals         ${integer} NOT NULL,
  -- Base units; negative when they leave the account.
  amount           TEXT NOT NULL,
  account          TEXT,
  counterparty     TEXT,
  transaction_hash TEXT,
  block_number     TEXT,
  price            TEXT,
  rate             TEXT
)${plain};
CREATE INDEX movements_by_time ON ${schema}movements (at, id);
`;
