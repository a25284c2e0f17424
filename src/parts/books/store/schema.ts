import type { SchemaDialect } from "../../../store/module.ts";

/** Returns the SQL of the tables of movements. */
export const movementsSchema = ({ schema, integer, sum, id, plain, small }: SchemaDialect): string => `
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

-- Sums of the movements of each UTC day, job and token, in base units. Without a job: empty, and 0. The network's own coin: empty.
CREATE TABLE ${schema}movement_days (
  day          ${integer} NOT NULL,
  service_id   TEXT NOT NULL,
  job_index    ${integer} NOT NULL,
  network      TEXT NOT NULL,
  asset        TEXT NOT NULL,
  symbol       TEXT NOT NULL,
  decimals     ${integer} NOT NULL,
  slot         ${integer} NOT NULL,
  payments     ${sum} NOT NULL,
  sold         ${sum} NOT NULL,
  refunded     ${sum} NOT NULL,
  charged_back ${sum} NOT NULL,
  lost         ${sum} NOT NULL,
  fees         ${sum} NOT NULL,
  found        ${sum} NOT NULL,
  taken_back   ${sum} NOT NULL,
  PRIMARY KEY (day, service_id, job_index, network, asset, symbol, decimals, slot)
)${small};
`;
