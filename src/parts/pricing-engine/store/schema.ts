import type { SchemaDialect } from "../../../store/module.ts";

/** Returns the SQL of the table of quotes. */
export const quotesSchema = ({ schema, integer, plain }: SchemaDialect): string => `
-- Signed quotes that can be paid, by their EIP-712 digest.
CREATE TABLE ${schema}quotes (
  digest     TEXT PRIMARY KEY,
  quote      TEXT NOT NULL,
  expires_at ${integer} NOT NULL
)${plain};
CREATE INDEX quotes_by_end ON ${schema}quotes (expires_at);
`;
