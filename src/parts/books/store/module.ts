import { movedElsewhere, oneSpelling } from "../../../core/payment.ts";
import { type Lookup, parameters } from "../../../store/list-dialect.ts";
import { add, type Effect, type Reactions } from "../../../store/machine/changes.ts";
import type { StoreModule } from "../../../store/module.ts";
import { type SoldPayment, transactionOf } from "../../../store/payment-row.ts";
import type { Table } from "../../../store/rows.ts";
import { counted, sumMovements } from "./days.ts";
import type { Books, Movement, MovementKind } from "./ledger.ts";
import { MOVEMENT_COLUMNS, type MovementRow, type NewMovementRow, toMovement } from "./row.ts";
import { movementsSchema } from "./schema.ts";

const TABLE: Table<MovementRow, "id"> = {
  name: "movements",
  key: ["id"],
  columns: ["id", ...MOVEMENT_COLUMNS],
};

/** Decimals of a network's own coin. */
const COIN_DECIMALS = 18;

/** Every movement of money. */
const REACTIONS: Reactions = {
  paymentDecided({ payment }) {
    if (payment.state !== "settled") return [];
    const { updated_at: at, amount, ceiling, settlement, block_number } = payment;
    const hash = { transaction_hash: transactionOf(settlement) || null, block_number };
    const kind = ceiling === null ? "payment" : "charge";
    return moved({ ...saleOf(payment), ...hash, at, kind, amount });
  },

  paymentContradicted({ payment, at }) {
    const sale = { ...saleOf(payment), at, kind: "correction" } as const;
    if (payment.state === "settled") return moved({ ...sale, amount: `-${payment.amount}` });
    const came = payment.state === "released" && movedElsewhere(payment.settlement ?? undefined);
    return came ? moved({ ...sale, amount: came.amount, transaction_hash: came.transaction }) : [];
  },

  moneySent({ sent: { as, payment, token, amount, ...sent } }) {
    const of = payment === undefined ? { ...OF_NO_SALE, ...token } : saleOf(payment);
    return moved({ ...of, ...sent, kind: as, amount: `-${amount}` });
  },
};

/** Every movement of money. */
export const BOOKS: StoreModule<Books> = {
  schema: { table: TABLE.name, sql: movementsSchema },
  forOperator: ["listMovements", "sumMovements"],
  on: REACTIONS,

  lookups: {
    sumMovements,

    *listMovements({ dialect }, { after, until, limit }): Lookup<Movement[]> {
      const { values, add } = parameters(dialect);
      const sql = `SELECT id, ${MOVEMENT_COLUMNS.join()} FROM ${dialect.schema}movements
        WHERE (at, id) > (${add(after.at)}, ${add(after.id)}) AND at < ${add(until)} ORDER BY at, id LIMIT ${add(limit)}`;
      return ((yield { name: "list_movements", sql, values }) as MovementRow[]).map(toMovement);
    },
  },
};

function moved(row: NewMovementRow & { readonly kind: MovementKind }): Effect[] {
  return [add(TABLE, row), counted(row)];
}

const OF_NO_SALE = {
  call_id: null,
  service_id: null,
  job_index: null,
  asset: null,
  symbol: null,
  decimals: COIN_DECIMALS,
  price: null,
  rate: null,
} as const satisfies Partial<NewMovementRow>;

/** Columns of a movement that name a sale, from and to the accounts of its payment. */
function saleOf(payment: SoldPayment) {
  const { call_id, service_id, job_index, network, asset, symbol, decimals, price_wei, rate } = payment;
  return {
    call_id,
    service_id,
    job_index,
    network,
    asset,
    symbol,
    decimals,
    price: price_wei,
    rate,
    account: oneSpelling(payment.pay_to),
    counterparty: payment.payer,
    transaction_hash: null,
    block_number: null,
  } satisfies Partial<NewMovementRow>;
}
