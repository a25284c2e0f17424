import type { SavedQuote } from "../../contract/price-ledgers.ts";
import type { Database } from "../driver.ts";

/** Expired quotes that are forgotten with each write: more than the one that it brings, so that they never pile up. */
const QUOTES_FORGOTTEN_AT_ONCE = 10;

interface QuoteRow {
  digest: string;
  quote: string;
  expires_at: number;
}

/** The {@link QuoteLedger} operation that writes. */
export function quoteOperations(database: Database) {
  const insert = database.prepare(
    "INSERT INTO quotes (digest, quote, expires_at) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING",
  );
  const select = database.prepare<QuoteRow>("SELECT digest, quote, expires_at FROM quotes WHERE digest = ?");
  const forgetExpired = database.prepare(
    `DELETE FROM quotes WHERE digest IN
       (SELECT digest FROM quotes WHERE expires_at <= ? LIMIT ${QUOTES_FORGOTTEN_AT_ONCE})`,
  );
  return {
    saveQuote({ quote }: { quote: SavedQuote }, now: number): SavedQuote {
      forgetExpired.run([now]);
      insert.run([quote.digest, quote.quote, quote.expiresAt]);
      return toSavedQuote(select.get([quote.digest]) as QuoteRow);
    },
  };
}

/** The one that reads. */
export function quoteLookups(database: Database) {
  const select = database.prepare<QuoteRow & { is_paid: number }>(
    `SELECT digest, quote, expires_at,
            EXISTS (SELECT 1 FROM payments WHERE receipt = digest AND state <> 'failed') AS is_paid
       FROM quotes WHERE digest = ? AND expires_at > ?`,
  );
  return {
    findQuote({ digest }: { digest: string }, now: number): (SavedQuote & { isPaid: boolean }) | undefined {
      const row = select.get([digest, now]);
      return row === undefined ? undefined : { ...toSavedQuote(row), isPaid: row.is_paid === 1 };
    },
  };
}

function toSavedQuote({ digest, quote, expires_at }: QuoteRow): SavedQuote {
  return { digest, quote, expiresAt: expires_at };
}
