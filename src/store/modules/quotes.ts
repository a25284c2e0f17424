import type { QuoteLedger, SavedQuote } from "../contract/price-ledgers.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { endedRows, keyIn, type Table } from "../rows.ts";

interface QuoteRow {
  readonly digest: string;
  readonly quote: string;
  readonly expires_at: number;
}

const TABLE: Table<QuoteRow, "digest"> = {
  name: "quotes",
  key: ["digest"],
  columns: ["digest", "quote", "expires_at"],
};

const EXPIRED = endedRows(TABLE.name, "expires_at", 100);

/** Signed quotes of the pricing engine. */
export const QUOTES = {
  steps: {
    saveQuote: {
      keys: ({ digest }) => [keyIn(TABLE, { digest })],
      run({ rows }, now, { digest, quote, expiresAt }) {
        rows.forget(EXPIRED, now);
        const known = rows.find(TABLE, { digest });
        if (known !== undefined && known.expires_at > now) return toSavedQuote(known);
        rows.put(TABLE, { digest, quote, expires_at: expiresAt });
        return { digest, quote, expiresAt };
      },
    },
  },
  lookups: {
    *findQuote({ dialect, now }, digest): Lookup<(SavedQuote & { isPaid: boolean }) | undefined> {
      const { values, add } = parameters(dialect);
      const isPaid = `EXISTS (
        SELECT 1 FROM ${dialect.schema}payments WHERE receipt = digest AND redeems_quote = 1 AND state <> 'failed')`;
      const sql = `SELECT digest, quote, expires_at, CASE WHEN ${isPaid} THEN 1 ELSE 0 END AS is_paid
          FROM ${dialect.schema}quotes WHERE digest = ${add(digest)} AND expires_at > ${dialect.now(add(now()))}`;
      const [row] = (yield { name: "find_quote", sql, values }) as (QuoteRow & { is_paid: 0 | 1 })[];
      return row && { ...toSavedQuote(row), isPaid: row.is_paid === 1 };
    },
  },
} satisfies StoreModule<QuoteLedger>;

function toSavedQuote({ digest, quote, expires_at }: QuoteRow): SavedQuote {
  return { digest, quote, expiresAt: expires_at };
}
