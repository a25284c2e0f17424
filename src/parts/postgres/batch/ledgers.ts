import type { CallerNonce } from "../../../core/payment.ts";
import type { SavedQuote } from "../../../store/contract/price-ledgers.ts";
import { type Sql, statement } from "../sql.ts";
import { type BatchPart, type Entry, entriesOf } from "./batch.ts";
import { CallerNonces } from "./caller-nonces.ts";

/** Expired offers and quotes that are deleted with each write: more than it adds, so that they never pile up. */
const FORGOTTEN_AT_ONCE = 100;

const FORGET_OFFERS = statement(
  "forget_offers",
  `DELETE FROM jobgate.offers WHERE id = ANY (ARRAY (
     SELECT id FROM jobgate.offers WHERE valid_until <= $1 LIMIT ${FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);
// Ordered alike in all batches, so that no two wait for each other; a statement can write a row only once.
const SAVE_OFFERS = statement(
  "save_offers",
  `INSERT INTO jobgate.offers AS saved (id, service_id, job_index, offer, valid_until)
   SELECT DISTINCT ON (id) id, service_id, job_index, offer, valid_until
     FROM json_populate_recordset(NULL::jobgate.offers, $1::json) ORDER BY id, valid_until DESC
   ON CONFLICT (id) DO UPDATE SET valid_until = excluded.valid_until WHERE saved.valid_until < excluded.valid_until`,
);
const FORGET_QUOTES = statement(
  "forget_quotes",
  `DELETE FROM jobgate.quotes WHERE digest = ANY (ARRAY (
     SELECT digest FROM jobgate.quotes WHERE expires_at <= $1 LIMIT ${FORGOTTEN_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
);
const SAVE_QUOTES = statement(
  "save_quotes",
  `INSERT INTO jobgate.quotes (digest, quote, expires_at)
   SELECT digest, quote, expires_at FROM json_to_recordset($1::json)
       AS new (n int, digest text, quote text, expires_at bigint) ORDER BY digest, n
   ON CONFLICT (digest) DO NOTHING`,
);
const SELECT_QUOTES = statement<{ digest: string; quote: string; expires_at: number }>(
  "select_quotes",
  "SELECT digest, quote, expires_at FROM jobgate.quotes WHERE digest = ANY ($1::text[])",
);

const INSERT_SECRET = statement(
  "insert_secret",
  "INSERT INTO jobgate.secrets (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
);
const SELECT_SECRET = statement<{ secret: string }>(
  "select_secret",
  "SELECT secret FROM jobgate.secrets WHERE name = $1",
);

/** Writes offers, quotes, secrets and nonces that no payment uses up. */
export function ledgersPart(
  entries: readonly Entry<"saveOffers" | "saveQuote" | "keepSecret" | "useCallerNonce">[],
): BatchPart {
  const offerEntries = entriesOf(entries, "saveOffers");
  const quoteEntries = entriesOf(entries, "saveQuote");
  const secretEntries = entriesOf(entries, "keepSecret");
  const nonceEntries = entriesOf(entries, "useCallerNonce");
  const nonces = new CallerNonces();
  return {
    callIds: 0,
    load: (sql) =>
      nonces.load(
        sql,
        nonceEntries.map(({ input: [nonce] }) => nonce),
      ),
    async write({ sql, now }) {
      for (const { input, decide } of nonceEntries) decide(useNonce(nonces, input[0], now));
      await Promise.all([
        saveOffers(sql, offerEntries, now),
        saveQuotes(sql, quoteEntries, now),
        ...secretEntries.map((entry) => keepSecret(sql, entry)),
        nonces.write(sql, now),
      ]);
    },
  };
}

async function saveOffers(sql: Sql, entries: readonly Entry<"saveOffers">[], now: number): Promise<void> {
  if (entries.length === 0) return;
  const rows = entries.flatMap(({ input: [offers] }) =>
    offers.map(({ id, job, offer, validForMs }) => ({
      id,
      service_id: String(job.serviceId),
      job_index: job.jobIndex,
      offer,
      valid_until: now + validForMs,
    })),
  );
  await Promise.all([sql.run(FORGET_OFFERS, [now]), sql.run(SAVE_OFFERS, [JSON.stringify(rows)])]);
  for (const { decide } of entries) decide(undefined);
}

async function saveQuotes(sql: Sql, entries: readonly Entry<"saveQuote">[], now: number): Promise<void> {
  if (entries.length === 0) return;
  const rows = entries.map(({ input: [quote] }, n) => ({
    n,
    digest: quote.digest,
    quote: quote.quote,
    expires_at: quote.expiresAt,
  }));
  const [, , saved] = await Promise.all([
    sql.run(FORGET_QUOTES, [now]),
    sql.run(SAVE_QUOTES, [JSON.stringify(rows)]),
    sql.run(SELECT_QUOTES, [rows.map(({ digest }) => digest)]),
  ]);
  const byDigest = new Map(
    saved.map(({ digest, quote, expires_at }): [string, SavedQuote] => [
      digest,
      { digest, quote, expiresAt: expires_at },
    ]),
  );
  for (const { input, decide } of entries) decide(byDigest.get(input[0].digest) ?? input[0]);
}

function useNonce(nonces: CallerNonces, nonce: CallerNonce, now: number): boolean {
  if (nonce.expiresAt * 1000 <= now || nonces.isUsed(nonce, now)) return false;
  nonces.use(nonce, 0);
  return true;
}

async function keepSecret(sql: Sql, { input, decide }: Entry<"keepSecret">): Promise<void> {
  const [name] = input;
  const [, [row]] = await Promise.all([sql.run(INSERT_SECRET, input), sql.run(SELECT_SECRET, [name])]);
  if (row === undefined) throw new Error(`Postgres did not keep the secret ${name}`);
  decide(row.secret);
}
