import type { JobKey } from "../../../core/job-call.ts";
import type { NewOffer, SavedOffer } from "../../contract/price-ledgers.ts";
import type { Database } from "../driver.ts";

/** Ended offers that are forgotten with each write: more than a write brings, so that they never pile up. */
const OFFERS_FORGOTTEN_AT_ONCE = 100;

/** The {@link OfferLedger} operation that writes. */
export function offerOperations(database: Database) {
  const upsert = database.prepare(
    `INSERT INTO offers (id, service_id, job_index, offer, valid_until) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET valid_until = max(valid_until, excluded.valid_until)`,
  );
  const forgetEnded = database.prepare(
    `DELETE FROM offers WHERE id IN
       (SELECT id FROM offers WHERE valid_until <= ? LIMIT ${OFFERS_FORGOTTEN_AT_ONCE})`,
  );
  return {
    saveOffers(input: { offers: readonly NewOffer[] }, now: number): null {
      forgetEnded.run([now]);
      for (const { id, job, offer, validForMs } of input.offers) {
        upsert.run([id, String(job.serviceId), job.jobIndex, offer, now + validForMs]);
      }
      return null;
    },
  };
}

/** The one that reads. */
export function offerLookups(database: Database) {
  const select = database.prepare<{ id: string; offer: string; valid_until: number }>(
    `SELECT id, offer, valid_until FROM offers
      WHERE service_id = ? AND job_index = ? AND valid_until > ? ORDER BY valid_until DESC, id`,
  );
  return {
    findOffers({ job }: { job: JobKey }, now: number): SavedOffer[] {
      const rows = select.all([String(job.serviceId), job.jobIndex, now]);
      return rows.map(({ id, offer, valid_until }) => ({ id, job, offer, validUntil: valid_until }));
    },
  };
}
