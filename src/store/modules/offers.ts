import type { OfferLedger, SavedOffer } from "../contract/price-ledgers.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { endedRows, keyIn, type Table } from "../rows.ts";

interface OfferRow {
  readonly id: string;
  readonly service_id: string;
  readonly job_index: number;
  readonly offer: string;
  readonly valid_until: number;
}

const TABLE: Table<OfferRow, "id"> = {
  name: "offers",
  key: ["id"],
  columns: ["id", "service_id", "job_index", "offer", "valid_until"],
};

const ENDED = endedRows(TABLE.name, "valid_until", 100);

/** Offers made to clients. */
export const OFFERS = {
  steps: {
    saveOffers: {
      keys: (offers) => offers.map(({ id }) => keyIn(TABLE, { id })),
      run({ rows }, now, offers) {
        rows.forget(ENDED, now);
        for (const { id, job, offer, validForMs } of offers) {
          const valid_until = now + validForMs;
          const known = rows.find(TABLE, { id });
          if (known !== undefined && known.valid_until >= valid_until) continue;
          const service_id = String(job.serviceId);
          rows.put(TABLE, { id, service_id, job_index: job.jobIndex, offer, valid_until });
        }
      },
    },
  },
  lookups: {
    *findOffers({ dialect, now }, job): Lookup<SavedOffer[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT id, offer, valid_until FROM ${dialect.schema}offers
        WHERE service_id = ${add(String(job.serviceId))} AND job_index = ${add(job.jobIndex)}
          AND valid_until > ${dialect.now(add(now()))} ORDER BY valid_until DESC, id`;
      const rows = (yield { name: "find_offers", sql, values }) as OfferRow[];
      return rows.map(({ id, offer, valid_until }) => ({ id, job, offer, validUntil: valid_until }));
    },
  },
} satisfies StoreModule<OfferLedger>;
