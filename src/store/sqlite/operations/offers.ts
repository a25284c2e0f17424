import type { SavedOffer } from "../../store.ts";
import type { Database } from "../driver.ts";

/** The {@link OfferLedger} operation that writes. */
export function offerOperations(database: Database) {
  const deleteAll = database.prepare("DELETE FROM offers");
  const insert = database.prepare("INSERT OR REPLACE INTO offers (id, offer, valid_until) VALUES (?, ?, ?)");
  return {
    saveOffers(input: { offers: readonly SavedOffer[] }): null {
      deleteAll.run([]);
      for (const { id, offer, validUntil } of input.offers) insert.run([id, offer, validUntil]);
      return null;
    },
  };
}
