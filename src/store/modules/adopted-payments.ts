import type { AdoptedPayment, AdoptionLedger } from "../contract/adoption-ledger.ts";
import { type Lookup, parameters } from "../list-dialect.ts";
import type { StoreModule } from "../module.ts";
import { keyIn, type Table } from "../rows.ts";

interface AdoptedPaymentRow {
  readonly payer: string;
  readonly nonce: string;
  readonly network: string;
  readonly asset: string;
  /** JSON of the fields that have no column. */
  readonly adopted: string;
  readonly adopted_at: number;
}

const KEY = ["payer", "nonce", "network", "asset"] as const;

const TABLE: Table<AdoptedPaymentRow, (typeof KEY)[number]> = {
  name: "adopted_payments",
  key: KEY,
  columns: [...KEY, "adopted", "adopted_at"],
};

/** Keys of the journal. */
const PAYMENTS: Table<
  Pick<AdoptedPaymentRow, (typeof KEY)[number]> & { readonly call_id: number },
  (typeof KEY)[number]
> = { name: "payments", key: KEY, columns: [...KEY, "call_id"] };

/** Payments that the chain shows and a restored copy lacks. */
export const ADOPTED_PAYMENTS = {
  steps: {
    adoptPayment: {
      keys: ({ key }) => [keyIn(PAYMENTS, key), keyIn(TABLE, key)],
      run({ rows }, now, { key, ...adopted }) {
        const payment = rows.find(PAYMENTS, key);
        if (payment !== undefined) return { kind: "payment_known", callId: payment.call_id };
        const changed = rows.find(TABLE, key) === undefined;
        if (changed) rows.put(TABLE, { ...key, adopted: JSON.stringify(adopted), adopted_at: now });
        return { kind: "adopted", changed };
      },
    },
  },
  lookups: {
    *findAdoptedPayments({ dialect }, signed): Lookup<AdoptedPayment[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT payer, nonce, network, asset, adopted FROM ${dialect.schema}adopted_payments
        WHERE payer = ${add(signed.payer)} AND nonce = ${add(signed.nonce)}`;
      const rows = (yield { name: "find_adopted_payments", sql, values }) as AdoptedPaymentRow[];
      return rows.map(({ payer, nonce, network, asset, adopted }) => ({
        key: { payer, nonce, network, asset },
        ...(JSON.parse(adopted) as Omit<AdoptedPayment, "key">),
      }));
    },
  },
} satisfies StoreModule<AdoptionLedger>;
