import type { Movement, MovementKind } from "./ledger.ts";

/** Columns of a row of `movements`. */
export interface MovementRow {
  id: number;
  at: number;
  kind: MovementKind;
  call_id: number | null;
  service_id: string | null;
  job_index: number | null;
  network: string;
  asset: string | null;
  symbol: string | null;
  decimals: number;
  amount: string;
  account: string | null;
  counterparty: string | null;
  transaction_hash: string | null;
  block_number: string | null;
  price: string | null;
  rate: string | null;
}

/** Row that gets its ID when it is inserted. */
export type NewMovementRow = Omit<MovementRow, "id">;

/** Columns of a new row. */
export const MOVEMENT_COLUMNS = [
  "at",
  "kind",
  "call_id",
  "service_id",
  "job_index",
  "network",
  "asset",
  "symbol",
  "decimals",
  "amount",
  "account",
  "counterparty",
  "transaction_hash",
  "block_number",
  "price",
  "rate",
] as const satisfies readonly (keyof MovementRow)[];

export function toMovement(row: MovementRow): Movement {
  const { asset, symbol, call_id: callId, service_id: serviceId, job_index: jobIndex, price } = row;
  // The object is built without a spread, because V8 takes ten times as long to add the other fields to a spread
  // object.
  return {
    id: row.id,
    at: row.at,
    kind: row.kind,
    network: row.network,
    amount: row.amount,
    decimals: row.decimals,
    token: asset === null || symbol === null ? undefined : { asset, symbol },
    account: row.account ?? undefined,
    counterparty: row.counterparty ?? undefined,
    transaction: row.transaction_hash ?? undefined,
    block: row.block_number ?? undefined,
    sale:
      callId === null || serviceId === null || jobIndex === null || price === null
        ? undefined
        : { callId, serviceId: BigInt(serviceId), jobIndex, price, rate: row.rate ?? undefined },
  };
}
