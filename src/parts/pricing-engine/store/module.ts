import type { OneTimeNonce } from "../../../core/payment.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import type { StoreModule } from "../../../store/module.ts";
import { endedRows, keyIn, type Table } from "../../../store/rows.ts";
import type { QuoteLedger, SavedQuote } from "./ledger.ts";
import { quotesSchema } from "./schema.ts";

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

const NONCE = "quote ";
/** Time by which a quote's nonce outlives the quote: longer than a purchase takes, and than clocks differ. */
const NONCE_MARGIN_SECS = 86_400;

/**
 * Returns the nonce that a payment uses up if it names a quote. Payments at the current price share one quote, and use up no nonce.
 * @param expiresAt end of the quote, Unix milliseconds
 */
export function nonceOfQuote({ digest, expiresAt }: Omit<SavedQuote, "quote">): OneTimeNonce {
  const endSecs = Math.ceil(expiresAt / 1000) + NONCE_MARGIN_SECS;
  return { key: `${NONCE}${digest}`, expiresAt: endSecs, isOfCharge: true };
}

/** Signed quotes of the pricing engine. */
export const QUOTES: StoreModule<QuoteLedger> = {
  schema: { table: TABLE.name, sql: quotesSchema },
  keeps: [
    {
      table: "payments",
      while: ({ schema }, row) =>
        `EXISTS (SELECT 1 FROM ${schema}quotes JOIN ${schema}one_time_nonces AS used ON used.key = '${NONCE}' || quotes.digest
          WHERE quotes.digest = ${row}.receipt AND used.call_id = ${row}.call_id)`,
    },
  ],
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
      const isPaid = `EXISTS (SELECT 1 FROM ${dialect.schema}one_time_nonces WHERE key = '${NONCE}' || digest)`;
      const sql = `SELECT digest, quote, expires_at, CASE WHEN ${isPaid} THEN 1 ELSE 0 END AS is_paid
          FROM ${dialect.schema}quotes WHERE digest = ${add(digest)} AND expires_at > ${dialect.now(add(now()))}`;
      const [row] = (yield { name: "find_quote", sql, values }) as (QuoteRow & { is_paid: 0 | 1 })[];
      return row && { ...toSavedQuote(row), isPaid: row.is_paid === 1 };
    },
  },
};

function toSavedQuote({ digest, quote, expires_at }: QuoteRow): SavedQuote {
  return { digest, quote, expiresAt: expires_at };
}
