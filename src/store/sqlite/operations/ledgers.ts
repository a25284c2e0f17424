import type { SavedQuote } from "../../contract/price-ledgers.ts";
import type { Database } from "../driver.ts";
import type { OperationTable } from "../transaction.ts";
import { CallerNonces } from "./caller-nonces.ts";

/** Ended offers that are deleted with each write: more than a write adds, so that they never pile up. */
const OFFERS_FORGOTTEN_AT_ONCE = 100;
/** Expired quotes that are deleted with each write: more than the one that it adds. */
const QUOTES_FORGOTTEN_AT_ONCE = 10;

interface QuoteRow {
  digest: string;
  quote: string;
  expires_at: number;
}

export function ledgerOperations(
  database: Database,
): OperationTable<"saveOffers" | "saveQuote" | "keepSecret" | "useCallerNonce"> {
  const upsertOffer = database.prepare(
    `INSERT INTO offers (id, service_id, job_index, offer, valid_until) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET valid_until = max(valid_until, excluded.valid_until)`,
  );
  const forgetOffers = database.prepare(
    `DELETE FROM offers WHERE id IN
       (SELECT id FROM offers WHERE valid_until <= ? LIMIT ${OFFERS_FORGOTTEN_AT_ONCE})`,
  );
  const insertQuote = database.prepare(
    "INSERT INTO quotes (digest, quote, expires_at) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING",
  );
  const selectQuote = database.prepare<QuoteRow>(
    "SELECT digest, quote, expires_at FROM quotes WHERE digest = ?",
  );
  const forgetQuotes = database.prepare(
    `DELETE FROM quotes WHERE digest IN
       (SELECT digest FROM quotes WHERE expires_at <= ? LIMIT ${QUOTES_FORGOTTEN_AT_ONCE})`,
  );
  const insertSecret = database.prepare(
    "INSERT INTO secrets (name, secret) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
  );
  const callerNonces = new CallerNonces(database);
  const selectSecret = database.prepare<{ secret: string }>("SELECT secret FROM secrets WHERE name = ?");
  return {
    saveOffers(now, offers) {
      forgetOffers.run([now]);
      for (const { id, job, offer, validForMs } of offers) {
        upsertOffer.run([id, String(job.serviceId), job.jobIndex, offer, now + validForMs]);
      }
    },
    saveQuote(now, quote) {
      forgetQuotes.run([now]);
      insertQuote.run([quote.digest, quote.quote, quote.expiresAt]);
      return toSavedQuote(selectQuote.get([quote.digest]) as QuoteRow);
    },
    keepSecret(_now, name, candidate) {
      insertSecret.run([name, candidate]);
      return (selectSecret.get([name]) as { secret: string }).secret;
    },
    useCallerNonce(now, nonce) {
      if (nonce.expiresAt * 1000 <= now || callerNonces.isUsed(nonce, now)) return false;
      callerNonces.use(nonce, 0, now);
      return true;
    },
  };
}

export function ledgerLookups(database: Database): OperationTable<"findOffers" | "findQuote"> {
  const selectOffers = database.prepare<{ id: string; offer: string; valid_until: number }>(
    `SELECT id, offer, valid_until FROM offers
      WHERE service_id = ? AND job_index = ? AND valid_until > ? ORDER BY valid_until DESC, id`,
  );
  const selectQuote = database.prepare<QuoteRow & { is_paid: number }>(
    `SELECT digest, quote, expires_at,
            EXISTS (SELECT 1 FROM payments WHERE receipt = digest AND redeems_quote = 1 AND state <> 'failed') AS is_paid
       FROM quotes WHERE digest = ? AND expires_at > ?`,
  );
  return {
    findOffers(now, job) {
      const rows = selectOffers.all([String(job.serviceId), job.jobIndex, now]);
      return rows.map(({ id, offer, valid_until }) => ({ id, job, offer, validUntil: valid_until }));
    },
    findQuote(now, digest) {
      const row = selectQuote.get([digest, now]);
      return row && { ...toSavedQuote(row), isPaid: row.is_paid === 1 };
    },
  };
}

function toSavedQuote({ digest, quote, expires_at }: QuoteRow): SavedQuote {
  return { digest, quote, expiresAt: expires_at };
}
